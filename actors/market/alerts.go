package market

import (
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// tickGrace is how long after an expiry, in milliseconds, a tick from before it
	// may still arrive.
	tickGrace = 2_000
	// unwatchedFor is for how long, in milliseconds, after a time that nobody watched nothing
	// ends by the clock alone: what was traded in that time is on its way.
	unwatchedFor = 10_000
)

// alerts watches the prices of one asset for those who asked. It is told of prices in
// their order, and tells of levels that are reached and of times that are over.
type alerts struct {
	tell    func(engine.Ref, any)
	class   string
	speed   int64
	session sessions.Session

	book     alertBook
	overdue  []place // their time is over, and the price then was too old
	quiet    int64   // until then nothing ends by the clock alone, see unwatchedFor
	extremes extremes
	past     bool                     // what comes are bars of a time that nobody watched
	last     Tick                     // the newest price
	frame    int                      // of the bar whose close it is; -1: it is a trade
	traded   int64                    // time of the newest trade
	told     [prices.Timeframes]int64 // when the newest bar closed that was told of
}

func newAlerts(class string, speed int64, session sessions.Session, tell func(engine.Ref, any)) *alerts {
	return &alerts{tell: tell, class: class, speed: speed, session: session, frame: -1}
}

// tick takes a trade.
func (s *alerts) tick(t Tick) {
	s.expireBefore(t.Time)
	s.settle(t, nil)
	s.extremes.note(max(t.Time, s.noted()), t.Price, t.Price)
	upper, lower := s.book.top(byUpper), s.book.top(byLower)
	if upper != nil && upper.Upper <= t.Price || lower != nil && lower.Lower >= t.Price {
		eligible := func(p *place) bool { return p.Since < t.Time }
		taken := s.book.take(nil, byUpper, func(p *place) bool { return p.Upper <= t.Price }, eligible)
		taken = s.book.take(taken, byLower, func(p *place) bool { return p.Lower >= t.Price }, eligible)
		for i := range taken {
			s.tell(taken[i].Ref, Reached{Tick: t, Span: s.span(&taken[i])})
		}
	}
	s.last, s.frame, s.traded = t, -1, t.Time
}

// bar takes a closed bar, if the asset has no trades that say more.
func (s *alerts) bar(frame int, b marketdata.Bar) {
	if b.CloseTime <= s.last.Time || s.traded != 0 && b.CloseTime-s.traded <= max(prices.Tickless/s.speed, strategy.LeastAge) {
		return
	}
	s.takeBar(frame, b)
}

// takeBar takes a closed bar that says more of its time than what came before.
func (s *alerts) takeBar(frame int, b marketdata.Bar) {
	t := Tick{Price: b.Close, Time: b.CloseTime}
	s.expireBefore(b.CloseTime)
	s.settle(t, &b)
	// A bar counts for those who began before it opened, as a tick at that time would.
	s.extremes.note(max(b.OpenTime+1, s.noted()), b.Low, b.High)
	eligible := func(p *place) bool { return p.Since <= b.OpenTime }
	taken := s.book.take(nil, byUpper, func(p *place) bool { return p.Upper <= b.High }, eligible)
	taken = s.book.take(taken, byLower, func(p *place) bool { return p.Lower >= b.Low }, eligible)
	for i := range taken {
		s.tell(taken[i].Ref, Reached{Tick: t, Bar: &b, Past: s.past, Span: s.span(&taken[i])})
	}
	s.last, s.frame = t, frame
}

// closed tells of the close of a bar those who asked for its timeframe, once, and not
// if the next one is over already.
func (s *alerts) closed(frame int, b marketdata.Bar) {
	if s.last.Time == 0 || b.CloseTime <= s.told[frame] || s.last.Time-b.CloseTime >= prices.FrameMS[frame]/s.speed {
		return
	}
	s.told[frame] = b.CloseTime
	s.book.each(func(p *place) {
		if int(p.frame) == frame && p.Since < b.CloseTime && b.CloseTime < p.Expires {
			s.tell(p.Ref, Closed{At: b.CloseTime, Price: s.last.Price, Span: s.span(p), Frame: prices.FrameMS[frame] / s.speed})
		}
	})
}

// quote tells ref the newest price, if it has an alert and there is one.
func (s *alerts) quote(ref engine.Ref) {
	if i, ok := s.book.of[ref]; ok && s.last.Time != 0 {
		p := &s.book.places[i]
		s.tell(ref, Quoted{Price: s.last.Price, Span: s.span(p), Frame: prices.FrameMS[p.frame] / s.speed})
	}
}

// noted returns the time of what the extremes have noted last.
func (s *alerts) noted() int64 {
	if n := len(s.extremes.highs); n > 0 {
		return s.extremes.highs[n-1].at
	}
	return 0
}

// span returns the extremes since p began.
func (s *alerts) span(p *place) Span {
	seen := p.seen
	if low, high, ok := s.extremes.since(p.begins()); ok {
		seen = seen.with(low, high)
	}
	return seen
}

// with returns s extended by prices.
func (s Span) with(low, high float64) Span {
	if s == (Span{}) {
		return Span{low, high}
	}
	return Span{min(s.Low, low), max(s.High, high)}
}

// limit returns how old the last price may be.
func (s *alerts) limit() int64 {
	if s.frame >= 0 {
		return prices.BarLimit(s.frame, s.speed)
	}
	return prices.TickLimit(s.class, s.speed)
}

// patience returns until when p waits for a price after its expiry. Only time in which
// the asset is traded counts: no price can come in any other.
func (s *alerts) patience(p *place) int64 {
	wait := time.Duration(strategy.Patience(prices.FrameMS[p.frame]/s.speed)) * time.Millisecond
	return s.session.After(prices.Time(p.Expires), s.session.Lasting(wait, signal.Timeframes[p.frame])).UnixMilli()
}

// fresh says that the last price is not too old for what happens at a time.
func (s *alerts) fresh(at int64) bool {
	return s.last.Time != 0 && (at <= s.last.Time || s.session.Between(prices.Time(s.last.Time), prices.Time(at)).Milliseconds() <= s.limit())
}

// expireBefore ends the alerts whose time was over before that of a new price. A price
// at the very end goes before it.
func (s *alerts) expireBefore(at int64) {
	for p := s.book.top(byExpiry); p != nil && p.Expires < at; p = s.book.top(byExpiry) {
		s.end(p)
	}
}

// end ends p at its expiry, or has it wait for a price.
func (s *alerts) end(p *place) {
	ended := *p
	s.book.remove(p.Ref)
	if s.fresh(ended.Expires) {
		s.tell(ended.Ref, Expired{At: ended.Expires, Price: s.price(&ended), Past: s.past, Span: s.span(&ended)})
		return
	}
	s.overdue = append(s.overdue, ended)
}

// price returns the newest price of the time of p, 0 if there was none: a bar that holds
// all of that time says nothing of it.
func (s *alerts) price(p *place) float64 {
	if s.last.Time <= p.Since || s.last.Time > p.Expires {
		return 0
	}
	return s.last.Price
}

// settle ends the alerts that have waited for a price by t, which is the close of b
// unless that is nil: while they wait the levels hold.
func (s *alerts) settle(t Tick, b *marketdata.Bar) {
	for i := range s.overdue {
		p := &s.overdue[i]
		low, high := t.Price, t.Price
		if b != nil && p.Since <= b.OpenTime {
			low, high = b.Low, b.High
		}
		switch patience := s.patience(p); {
		case t.Time > patience:
			s.tell(p.Ref, Expired{At: patience, Price: s.price(p), Stale: true, Past: s.past, Span: s.span(p)})
		case p.Upper <= high || p.Lower >= low:
			s.tell(p.Ref, Reached{Tick: t, Bar: b, Past: s.past, Span: s.span(p).with(low, high)})
		default:
			s.tell(p.Ref, Expired{At: t.Time, Price: t.Price, Past: s.past, Span: s.span(p).with(low, high)})
		}
	}
	s.overdue = s.overdue[:0]
}

// expire ends what is over at the time now, although no price comes.
func (s *alerts) expire(now int64) {
	if now < s.quiet {
		return
	}
	for p := s.book.top(byExpiry); p != nil && p.Expires+s.grace() <= now; p = s.book.top(byExpiry) {
		s.end(p)
	}
	kept := s.overdue[:0]
	for i := range s.overdue {
		p := &s.overdue[i]
		if patience := s.patience(p); patience+s.grace() <= now {
			s.tell(p.Ref, Expired{At: patience, Price: s.price(p), Stale: true, Past: s.past, Span: s.span(p)})
		} else {
			kept = append(kept, *p)
		}
	}
	s.overdue = kept
}

// grace is how long after an expiry a price from before it may come.
func (s *alerts) grace() int64 {
	if s.frame >= 0 {
		return s.limit() // a bar that closes at the expiry
	}
	return tickGrace
}

// next returns when expire has something to do; math.MaxInt64: never.
func (s *alerts) next() int64 {
	next := int64(math.MaxInt64)
	if p := s.book.top(byExpiry); p != nil {
		next = p.Expires + s.grace()
	}
	for i := range s.overdue {
		next = min(next, s.patience(&s.overdue[i])+s.grace())
	}
	return max(next, s.quiet)
}

// drop forgets the alerts of gone.
func (s *alerts) drop(gone map[engine.Ref]struct{}) {
	s.book.removeAll(gone)
	s.overdue = slices.DeleteFunc(s.overdue, func(p place) bool { return in(gone, p.Ref) })
}

// refs returns all who have an alert.
func (s *alerts) refs() []engine.Ref {
	refs := make([]engine.Ref, 0, s.book.len()+len(s.overdue))
	s.book.each(func(p *place) { refs = append(refs, p.Ref) })
	for i := range s.overdue {
		refs = append(refs, s.overdue[i].Ref)
	}
	return refs
}
