// Package alerts watches the prices of an asset for those who wait for a level or a time. A
// Set belongs to the asset's actor, which hands it ticks and closed bars in their order; it
// notifies of each level that is reached, once, of alerts that expire, and of bars that close.
// A price that concerns no alert costs two comparisons, however many alerts there are.
//
// Where to read: alerts.go (what ends an alert), index.go (which alerts a price concerns),
// extremes.go (the lowest and highest price since an alert began).
package alerts

import (
	"cmp"
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
	// TickGrace is how long after an expiry, in milliseconds, a tick from before it
	// may still arrive.
	TickGrace = 2_000
	// UnwatchedFor is for how long, in milliseconds, after a time without watch no alert ends
	// by the clock alone: the trades of that time are still on their way.
	UnwatchedFor = 10_000
)

// Alert asks for notifications of an asset's prices, until one of the levels is reached or
// the alert expires. Times are milliseconds since 1970.
type Alert struct {
	Ref          engine.Ref // is notified; it has one alert for an asset
	Lower, Upper float64    // a price at or below the one, or at or above the other, ends it
	Since        int64      // only prices stamped after it count; a bar must open at it or later
	Expires      int64      // when it ends by itself
	Frame        signal.Timeframe
}

// Span is the lowest and the highest price since an alert began, as far as it is
// known. Both are 0 if there was none.
type Span struct{ Low, High float64 }

// What the Ref of an alert is sent. Reached and Expired end the alert.
type (
	// Reached reports that a price has reached a level: a tick, or, if Bar is not nil, a
	// bar.
	Reached struct {
		Tick marketdata.Tick
		Bar  *marketdata.Bar
		// Past reports whether it was found in bars of a time that was not watched.
		Past bool
		Span Span
	}
	// Expired reports that the time of the alert is over.
	Expired struct {
		At    int64   // when that was
		Price float64 // the last one before; 0 if there was none since the alert began
		// Stale reports whether Price was too old, and no other came for three
		// timeframes.
		Stale bool
		Past  bool
		Span  Span
	}
	// BarClosed reports that a bar of the alert's timeframe has closed.
	BarClosed struct {
		At    int64
		Price float64 // the newest one
		Span  Span
		Frame int64 // how long such a bar lasts by the clock, which prices may outrun
	}
	// LastPrice answers a request for the last price.
	LastPrice struct {
		Price float64 // the newest one
		Span  Span
		Frame int64 // as in Closed
	}
	// Dropped reports that the asset's actor has failed and lost the alert: it must be
	// added again.
	Dropped struct{}
)

// Set holds the alerts of one asset. It takes prices in their order, and notifies of levels
// that are reached and of alerts that expire. It belongs to one goroutine.
type Set struct {
	notify  func(engine.Ref, any)
	class   string
	speed   int64
	session sessions.Session

	index       alertIndex
	overdue     []Entry // their time is over, and the price then was too old
	settleUntil int64   // until then nothing ends by the clock alone, see unwatchedFor
	extremes    extremes
	behind      bool                     // what comes are bars of a time that was not watched
	last        marketdata.Tick          // the newest price
	frame       int                      // of the bar whose close it is; -1: it is a trade
	traded      int64                    // time of the newest trade
	notified    [prices.Timeframes]int64 // when the newest bar closed of which was notified
}

// NewSet returns an empty set for an asset of the class whose time runs speed times as fast
// as the clock. notify passes messages to the actors of alerts.
func NewSet(class string, speed int64, session sessions.Session, notify func(engine.Ref, any)) *Set {
	return &Set{notify: notify, class: class, speed: speed, session: session, frame: -1}
}

// Tick takes a trade.
func (s *Set) Tick(t marketdata.Tick) {
	s.expireBefore(t.Time)
	s.settle(t, nil)
	s.extremes.note(max(t.Time, s.noted()), t.Price, t.Price)
	upper, lower := s.index.top(byUpper), s.index.top(byLower)
	if upper != nil && upper.Upper <= t.Price || lower != nil && lower.Lower >= t.Price {
		eligible := func(p *Entry) bool { return p.Since < t.Time }
		taken := s.index.take(nil, byUpper, func(p *Entry) bool { return p.Upper <= t.Price }, eligible)
		taken = s.index.take(taken, byLower, func(p *Entry) bool { return p.Lower >= t.Price }, eligible)
		for i := range taken {
			s.notify(taken[i].Ref, Reached{Tick: t, Span: s.span(&taken[i])})
		}
	}
	s.last, s.frame, s.traded = t, -1, t.Time
}

// Bar takes a closed bar, if the asset has no trades that say more.
func (s *Set) Bar(frame int, b marketdata.Bar) {
	if b.CloseTime <= s.last.Time || s.traded != 0 && b.CloseTime-s.traded <= max(prices.Tickless/s.speed, strategy.MinAge) {
		return
	}
	s.takeBar(frame, b)
}

// takeBar takes a closed bar that says more of its time than what came before.
func (s *Set) takeBar(frame int, b marketdata.Bar) {
	t := marketdata.Tick{Price: b.Close, Time: b.CloseTime}
	s.expireBefore(b.CloseTime)
	s.settle(t, &b)
	// A bar counts for those who began before it opened, as a tick at that time would.
	s.extremes.note(max(b.OpenTime+1, s.noted()), b.Low, b.High)
	eligible := func(p *Entry) bool { return p.Since <= b.OpenTime }
	taken := s.index.take(nil, byUpper, func(p *Entry) bool { return p.Upper <= b.High }, eligible)
	taken = s.index.take(taken, byLower, func(p *Entry) bool { return p.Lower >= b.Low }, eligible)
	for i := range taken {
		s.notify(taken[i].Ref, Reached{Tick: t, Bar: &b, Past: s.behind, Span: s.span(&taken[i])})
	}
	s.last, s.frame = t, frame
}

// CloseBar notifies the alerts of a timeframe that a bar of it has closed, once, and not
// if the next one is over already.
func (s *Set) CloseBar(frame int, b marketdata.Bar) {
	if s.last.Time == 0 || b.CloseTime <= s.notified[frame] || s.last.Time-b.CloseTime >= prices.FrameMS[frame]/s.speed {
		return
	}
	s.notified[frame] = b.CloseTime
	s.index.each(func(p *Entry) {
		if int(p.frame) == frame && p.Since < b.CloseTime && b.CloseTime < p.Expires {
			s.notify(p.Ref, BarClosed{At: b.CloseTime, Price: s.last.Price, Span: s.span(p), Frame: prices.FrameMS[frame] / s.speed})
		}
	})
}

// NotifyPrice sends ref the last price, if it has an alert and there is one.
func (s *Set) NotifyPrice(ref engine.Ref) {
	if i, ok := s.index.of[ref]; ok && s.last.Time != 0 {
		p := &s.index.entries[i]
		s.notify(ref, LastPrice{Price: s.last.Price, Span: s.span(p), Frame: prices.FrameMS[p.frame] / s.speed})
	}
}

// noted returns the time of what the extremes have noted last.
func (s *Set) noted() int64 {
	if n := len(s.extremes.highs); n > 0 {
		return s.extremes.highs[n-1].at
	}
	return 0
}

// span returns the extremes since p began.
func (s *Set) span(p *Entry) Span {
	seen := p.seen
	if low, high, ok := s.extremes.since(p.Begins()); ok {
		seen = seen.With(low, high)
	}
	return seen
}

// With returns s extended by prices.
func (s Span) With(low, high float64) Span {
	if s == (Span{}) {
		return Span{low, high}
	}
	return Span{min(s.Low, low), max(s.High, high)}
}

// limit returns how old the last price may be.
func (s *Set) limit() int64 {
	if s.frame >= 0 {
		return prices.BarLimit(s.frame, s.speed)
	}
	return prices.TickLimit(s.class, s.speed)
}

// graceDeadline returns until when p waits for a price after its expiry. Only time in which
// the asset is traded counts: no price can come in any other.
func (s *Set) graceDeadline(p *Entry) int64 {
	wait := time.Duration(strategy.GracePeriod(prices.FrameMS[p.frame]/s.speed)) * time.Millisecond
	return s.session.After(prices.Time(p.Expires), s.session.Lasting(wait, signal.Timeframes[p.frame])).UnixMilli()
}

// fresh reports whether the last price is not too old for what happens at a time.
func (s *Set) fresh(at int64) bool {
	return s.last.Time != 0 && (at <= s.last.Time || s.session.Between(prices.Time(s.last.Time), prices.Time(at)).Milliseconds() <= s.limit())
}

// expireBefore ends the alerts whose time was over before that of a new price. A price
// at the very end goes before it.
func (s *Set) expireBefore(at int64) {
	for p := s.index.top(byExpiry); p != nil && p.Expires < at; p = s.index.top(byExpiry) {
		s.end(p)
	}
}

// end ends p at its expiry, or has it wait for a price.
func (s *Set) end(p *Entry) {
	ended := *p
	s.index.remove(p.Ref)
	if s.fresh(ended.Expires) {
		s.notify(ended.Ref, Expired{At: ended.Expires, Price: s.price(&ended), Past: s.behind, Span: s.span(&ended)})
		return
	}
	s.overdue = append(s.overdue, ended)
}

// price returns the newest price of the time of p, 0 if there was none: a bar that holds
// all of that time says nothing of it.
func (s *Set) price(p *Entry) float64 {
	if s.last.Time <= p.Since || s.last.Time > p.Expires {
		return 0
	}
	return s.last.Price
}

// settle ends the alerts that have waited for a price by t, which is the close of b
// unless that is nil: while they wait the levels hold.
func (s *Set) settle(t marketdata.Tick, b *marketdata.Bar) {
	for i := range s.overdue {
		p := &s.overdue[i]
		low, high := t.Price, t.Price
		if b != nil && p.Since <= b.OpenTime {
			low, high = b.Low, b.High
		}
		switch patience := s.graceDeadline(p); {
		case t.Time > patience:
			s.notify(p.Ref, Expired{At: patience, Price: s.price(p), Stale: true, Past: s.behind, Span: s.span(p)})
		case p.Upper <= high || p.Lower >= low:
			s.notify(p.Ref, Reached{Tick: t, Bar: b, Past: s.behind, Span: s.span(p).With(low, high)})
		default:
			s.notify(p.Ref, Expired{At: t.Time, Price: t.Price, Past: s.behind, Span: s.span(p).With(low, high)})
		}
	}
	s.overdue = s.overdue[:0]
}

// Expire ends what is over at the time now, although no price comes.
func (s *Set) Expire(now int64) {
	if now < s.settleUntil {
		return
	}
	for p := s.index.top(byExpiry); p != nil && p.Expires+s.grace() <= now; p = s.index.top(byExpiry) {
		s.end(p)
	}
	kept := s.overdue[:0]
	for i := range s.overdue {
		p := &s.overdue[i]
		if patience := s.graceDeadline(p); patience+s.grace() <= now {
			s.notify(p.Ref, Expired{At: patience, Price: s.price(p), Stale: true, Past: s.behind, Span: s.span(p)})
		} else {
			kept = append(kept, *p)
		}
	}
	s.overdue = kept
}

// grace is how long after an expiry a price from before it may come.
func (s *Set) grace() int64 {
	if s.frame >= 0 {
		return s.limit() // a bar that closes at the expiry
	}
	return TickGrace
}

// Next returns when expire has something to do; math.MaxInt64: never.
func (s *Set) Next() int64 {
	next := int64(math.MaxInt64)
	if p := s.index.top(byExpiry); p != nil {
		next = p.Expires + s.grace()
	}
	for i := range s.overdue {
		next = min(next, s.graceDeadline(&s.overdue[i])+s.grace())
	}
	return max(next, s.settleUntil)
}

// Drop forgets the alerts of gone.
func (s *Set) Drop(gone map[engine.Ref]struct{}) {
	s.index.removeAll(gone)
	s.overdue = slices.DeleteFunc(s.overdue, func(p Entry) bool { return in(gone, p.Ref) })
}

// Refs returns all who have an alert.
func (s *Set) Refs() []engine.Ref {
	refs := make([]engine.Ref, 0, s.index.len()+len(s.overdue))
	s.index.each(func(p *Entry) { refs = append(refs, p.Ref) })
	for i := range s.overdue {
		refs = append(refs, s.overdue[i].Ref)
	}
	return refs
}

// LastTime returns when the newest price was, 0 if there was none.
func (s *Set) LastTime() int64 { return s.last.Time }

// ByTicks reports whether the newest price is a trade, not the close of a bar.
func (s *Set) ByTicks() bool { return s.frame < 0 }

// MissedSince notes that prices after a time may be missing.
func (s *Set) MissedSince(at int64) { s.last.Time = min(s.last.Time, at) }

// Settle has no alert end by the clock alone until prices of a time that was not watched,
// and ended now, have arrived.
func (s *Set) Settle(now int64) { s.settleUntil = now + UnwatchedFor }

// Release returns all alerts with what they have seen, to be added to another set. s must not
// be used afterwards.
func (s *Set) Release() []Entry {
	all := make([]Entry, 0, s.index.len()+len(s.overdue))
	release := func(p *Entry) {
		kept := *p
		kept.seen, kept.from = s.span(p), max(p.from, s.last.Time)
		all = append(all, kept)
	}
	s.index.each(release)
	for i := range s.overdue {
		release(&s.overdue[i])
	}
	return all
}

// Add adds alerts, and returns those that began before the newest price: CatchUp adds them.
func (s *Set) Add(list []Entry) (late []Entry) {
	for i := range list {
		if p := &list[i]; p.Begins() < s.last.Time || p.Expires < s.last.Time {
			late = append(late, *p)
		} else {
			s.index.add(*p)
		}
	}
	return late
}

// PastBar is a bar and its timeframe, and from when on there are finer prices.
type PastBar struct {
	marketdata.Bar
	Frame int
	Finer int64
}

// CatchUp notifies late alerts of what has happened up to now, and adds those that are left:
// first by bars, ascending, of the time of which no tick is left, then by ticks.
func (s *Set) CatchUp(late []Entry, bars []PastBar, ticks []marketdata.Tick) {
	slices.SortFunc(late, func(x, y Entry) int { return cmp.Compare(x.Since, y.Since) })
	was := NewSet(s.class, s.speed, s.session, s.notify)
	next := 0
	begin := func(opens, at int64) { // the alerts that a price concerns that began to form at opens
		for next < len(late) && (late[next].Since <= opens || late[next].Expires < at) {
			was.index.add(late[next])
			next++
		}
	}
	was.behind = true
	for _, b := range bars {
		// An alert that began in the bar and is over before its end may be in finer prices.
		begin(b.OpenTime, min(b.CloseTime, b.Finer))
		was.takeBar(b.Frame, b.Bar)
	}
	was.behind = false
	for _, t := range ticks {
		begin(t.Time-1, t.Time)
		was.Tick(t)
	}
	begin(math.MaxInt64, 0)
	was.index.each(func(p *Entry) { // none is overdue: the newest price has ended them
		kept := *p
		kept.seen, kept.from = was.span(p), s.last.Time
		s.index.add(kept)
	})
}

func in(set map[engine.Ref]struct{}, ref engine.Ref) bool {
	_, ok := set[ref]
	return ok
}
