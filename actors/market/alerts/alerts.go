// Package alerts watches the prices of an asset for actors that wait for a price level or a time. A
// Set belongs to the asset's actor, which passes it ticks and closed bars in order. The set
// notifies once when a level is reached or an alert expires, and whenever a bar closes. A price
// that reaches no level costs two comparisons, however many alerts there are.
//
// Where to read: alerts.go (what ends an alert), index.go (which alerts a price concerns,
// and the lowest and highest price since an alert began).
package alerts

import (
	"cmp"
	"math"
	"runtime"
	"slices"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// TickGrace is how long after an expiry, in milliseconds, a tick from before it may arrive.
	TickGrace = 2_000
	// ExpiryDelay is how long, in milliseconds, alerts do not expire by the clock alone after a
	// time in which prices were not watched, because its trades may still arrive.
	ExpiryDelay = 10_000
)

// Alert asks for notifications of an asset's prices until a level is reached or the alert expires.
// Times are milliseconds since 1970.
type Alert struct {
	Ref          engine.Ref // receives the notifications; it has one alert for an asset
	Lower, Upper float64    // a price at or below Lower, or at or above Upper, ends the alert
	Since        int64      // only ticks after it and bars that open at it or later count
	Expires      int64
	Exit         int64 // the first price after it, up to Expires, ends the alert at any level; 0: no exit
	Frame        signal.Timeframe
}

// Span is the lowest and the highest known price since an alert began, or zero without prices.
type Span struct{ Low, High float64 }

// The messages to the Ref of an alert. Reached, Exited and Expired end the alert; Exit is that of the alert.
type (
	// Reached reports that a tick reached a level, or a bar if Bar is not nil.
	Reached struct {
		Tick marketdata.Tick
		Bar  *marketdata.Bar
		// Past reports whether Bar is from a time in which prices were not watched.
		Past bool
		Span Span
		Exit int64
	}
	// Exited reports the first price after the exit of the alert.
	Exited struct {
		Tick marketdata.Tick // a trade, or the open of a bar
		Past bool            // as in Reached
		Span Span
		Left float64 // as in BarClosed
	}
	// Expired reports that the alert expired.
	Expired struct {
		At    int64
		Price float64 // the last one before At, or 0 without a price since the alert began
		// Stale reports whether Price was too old and no other came for three timeframes.
		Stale bool
		Past  bool
		Span  Span
		Exit  int64
	}
	// BarClosed reports that a bar of the alert's timeframe has closed.
	BarClosed struct {
		At    int64
		Price float64 // the newest one
		Span  Span
		Frame int64 // the length of such a bar in wall time, in milliseconds
		// Left is the share of the alert's time, while the market is open, that is left.
		Left float64
	}
	// LastPrice answers a request for the last price.
	LastPrice struct {
		Price float64
		Span  Span
		Frame int64   // as in BarClosed
		Left  float64 // as in BarClosed
	}
	// Dropped reports that the asset's actor lost the alert, which must be added again.
	Dropped struct{}
)

// Set holds the alerts of one asset. It belongs to one goroutine.
type Set struct {
	notify  func(engine.Ref, any)
	class   string
	speed   int64
	session sessions.Session

	index        alertIndex
	overdue      []Entry // expired at a time for which the last price was too old
	delayedUntil int64   // no alert expires by the clock alone before it, see ExpiryDelay
	extremes     extremes
	tradeless    bool                     // the asset has no trades: its source gives bars only
	replaying    bool                     // prices are bars of a time that was not watched
	last         marketdata.Tick          // the newest price
	frame        int                      // of the bar whose close last is, or -1 for a trade
	traded       int64                    // time of the newest trade
	notified     [prices.Timeframes]int64 // close times of the newest bars that were notified
}

// NewSet returns an empty set for an asset of the class whose time runs speed times as fast as the
// clock. notify sends messages to the actors of alerts.
func NewSet(class string, speed int64, session sessions.Session, notify func(engine.Ref, any)) *Set {
	return &Set{notify: notify, class: class, speed: speed, session: session, frame: -1}
}

// Tick processes a trade.
func (s *Set) Tick(t marketdata.Tick) {
	s.expireBefore(t.Time)
	s.endOverdue(t, nil)
	s.extremes.add(max(t.Time, s.extremes.newest()), t.Price, t.Price)
	s.exit(t)
	upper, lower := s.index.top(byUpper), s.index.top(byLower)
	if upper != nil && upper.Upper <= t.Price || lower != nil && lower.Lower >= t.Price {
		eligible := func(p *Entry) bool { return p.Since < t.Time }
		taken := s.index.take(nil, byUpper, func(p *Entry) bool { return p.Upper <= t.Price }, eligible)
		taken = s.index.take(taken, byLower, func(p *Entry) bool { return p.Lower >= t.Price }, eligible)
		for i := range taken {
			s.notify(taken[i].Ref, Reached{Tick: t, Span: s.span(&taken[i]), Exit: taken[i].Exit})
		}
	}
	s.last, s.frame, s.traded = t, -1, t.Time
}

// exit ends the alerts whose exit was before t, a trade or the open of a bar.
func (s *Set) exit(t marketdata.Tick) {
	for ref := range s.index.exits {
		if p := s.index.entries[s.index.of[ref]]; p.Exit < t.Time && t.Time <= p.Expires {
			s.index.remove(ref)
			s.notify(ref, Exited{Tick: t, Past: s.replaying, Span: s.span(&p).With(t.Price, t.Price),
				Left: p.left(s.session, t.Time)})
		}
	}
}

// Bar processes a closed bar, unless the asset has trades, which are more precise.
func (s *Set) Bar(frame int, b marketdata.Bar) {
	tickless := max(prices.Tickless/s.speed, strategy.MinAge)
	if b.CloseTime > s.last.Time && (s.traded == 0 || b.CloseTime-s.traded > tickless) {
		s.takeBar(frame, b)
	}
}

func (s *Set) takeBar(frame int, b marketdata.Bar) {
	t := marketdata.Tick{Price: b.Close, Time: b.CloseTime}
	s.exit(marketdata.Tick{Price: b.Open, Time: b.OpenTime}) // the bar in which an exit was asked for counts as a whole
	s.expireBefore(b.CloseTime)
	s.endOverdue(t, &b)
	// A bar counts for alerts that began before it opened, as a tick at that time would.
	s.extremes.add(max(b.OpenTime+1, s.extremes.newest()), b.Low, b.High)
	if s.tradeless {
		s.index.each(func(p *Entry) {
			if s.isFirst(p, frame, b) {
				p.seen = p.seen.With(b.Low, b.High)
			}
		})
	}
	eligible := func(p *Entry) bool { return p.Since <= b.OpenTime || s.isFirst(p, frame, b) }
	taken := s.index.take(nil, byUpper, func(p *Entry) bool { return p.Upper <= b.High }, eligible)
	taken = s.index.take(taken, byLower, func(p *Entry) bool { return p.Lower >= b.Low }, eligible)
	for i := range taken {
		s.notify(taken[i].Ref, Reached{Tick: t, Bar: &b, Past: s.replaying, Span: s.span(&taken[i]),
			Exit: taken[i].Exit})
	}
	s.last, s.frame = t, frame
}

// WithoutTrades records that the asset has no trades, as far as is known. The price with which
// an alert begins is then the close of a bar, so that the bar in which it begins counts.
func (s *Set) WithoutTrades() { s.tradeless = true }

// isFirst reports whether b, in which p begins, counts for p: nothing in it is older than the
// price with which p begins. That is not known of a bar that is longer than those of p.
func (s *Set) isFirst(p *Entry, frame int, b marketdata.Bar) bool {
	return s.tradeless && s.traded == 0 && frame <= int(p.frame) && b.OpenTime < p.Since && p.Since < b.CloseTime
}

// barBurst is the number of alerts that are notified of a closed bar before other goroutines run. There
// may be a million, and each makes an actor runnable.
const barBurst = 16

// CloseBar notifies the alerts of a timeframe once that a bar of it closed, unless the next bar is
// over as well.
func (s *Set) CloseBar(frame int, b marketdata.Bar) {
	length := prices.FrameMS[frame] / s.speed
	if s.last.Time == 0 || b.CloseTime <= s.notified[frame] || s.last.Time-b.CloseTime >= length {
		return
	}
	s.notified[frame] = b.CloseTime
	notified := 0
	s.index.each(func(p *Entry) {
		if int(p.frame) == frame && p.Since < b.CloseTime && b.CloseTime < p.Expires {
			if notified++; notified%barBurst == 0 {
				runtime.Gosched()
			}
			s.notify(p.Ref, BarClosed{At: b.CloseTime, Price: s.last.Price, Span: s.span(p), Frame: length,
				Left: p.left(s.session, b.CloseTime)})
		}
	})
}

// NotifyPrice sends the last price, if there is one, to ref if it has an alert.
func (s *Set) NotifyPrice(ref engine.Ref) {
	if i, ok := s.index.of[ref]; ok && s.last.Time != 0 {
		p := &s.index.entries[i]
		s.notify(ref, LastPrice{Price: s.last.Price, Span: s.span(p), Frame: prices.FrameMS[p.frame] / s.speed,
			Left: p.left(s.session, s.last.Time)})
	}
}

// span returns the lowest and the highest price since p began.
func (s *Set) span(p *Entry) Span {
	seen := p.seen
	if low, high, ok := s.extremes.since(p.Begins()); ok {
		seen = seen.With(low, high)
	}
	return seen
}

// With returns s extended by the prices low and high.
func (s Span) With(low, high float64) Span {
	if s == (Span{}) {
		return Span{low, high}
	}
	return Span{min(s.Low, low), max(s.High, high)}
}

// limit returns the maximum age of the last price in milliseconds.
func (s *Set) limit() int64 {
	if s.frame >= 0 {
		return prices.BarLimit(s.frame, s.speed)
	}
	return prices.TickLimit(s.class, s.speed)
}

// fresh reports whether the last price is recent enough at a time.
func (s *Set) fresh(at int64) bool {
	if s.last.Time == 0 || at <= s.last.Time {
		return s.last.Time != 0
	}
	return s.session.Between(prices.Time(s.last.Time), prices.Time(at)).Milliseconds() <= s.limit()
}

// expireBefore ends the alerts that expired before the time of a new price. A price at the very
// expiry counts first.
func (s *Set) expireBefore(at int64) {
	for p := s.index.top(byExpiry); p != nil && p.Expires < at; p = s.index.top(byExpiry) {
		s.end(p)
	}
}

// end ends p at its expiry, or makes it wait for a price.
func (s *Set) end(p *Entry) {
	ended := *p
	s.index.remove(p.Ref)
	if s.fresh(ended.Expires) {
		s.notify(ended.Ref, Expired{
			At: ended.Expires, Price: ended.price(s.last), Past: s.replaying, Span: s.span(&ended),
			Exit: ended.Exit,
		})
		return
	}
	s.overdue = append(s.overdue, ended)
}

// expireStale notifies the Ref of p that it expired at its deadline without a recent price.
func (s *Set) expireStale(p *Entry, deadline int64) {
	s.notify(p.Ref, Expired{At: deadline, Price: p.price(s.last), Stale: true, Past: s.replaying, Span: s.span(p), Exit: p.Exit})
}

// endOverdue ends the alerts that waited for a price with t, the close of b unless that is nil. Their
// levels still hold while they wait.
func (s *Set) endOverdue(t marketdata.Tick, b *marketdata.Bar) {
	for i := range s.overdue {
		p := &s.overdue[i]
		low, high := t.Price, t.Price
		if b != nil && p.Since <= b.OpenTime {
			low, high = b.Low, b.High
		}
		switch deadline := p.graceDeadline(s.session, s.speed); {
		case t.Time > deadline:
			s.expireStale(p, deadline)
		case p.Upper <= high || p.Lower >= low:
			s.notify(p.Ref, Reached{Tick: t, Bar: b, Past: s.replaying, Span: s.span(p).With(low, high), Exit: p.Exit})
		default:
			s.notify(p.Ref, Expired{At: t.Time, Price: t.Price, Past: s.replaying, Span: s.span(p).With(low, high),
				Exit: p.Exit})
		}
	}
	s.overdue = s.overdue[:0]
}

// Expire ends the alerts that are over at the time now, although no price comes.
func (s *Set) Expire(now int64) {
	if now < s.delayedUntil {
		return
	}
	for p := s.index.top(byExpiry); p != nil && p.Expires+s.grace() <= now; p = s.index.top(byExpiry) {
		s.end(p)
	}
	kept := s.overdue[:0]
	for i := range s.overdue {
		p := &s.overdue[i]
		if deadline := p.graceDeadline(s.session, s.speed); deadline+s.grace() <= now {
			s.expireStale(p, deadline)
		} else {
			kept = append(kept, *p)
		}
	}
	s.overdue = kept
}

// grace returns how long after an expiry a price from before it may come.
func (s *Set) grace() int64 {
	if s.frame >= 0 {
		return s.limit() // a bar that closes at the expiry
	}
	return TickGrace
}

// Next returns when Expire has something to do, or math.MaxInt64 for never.
func (s *Set) Next() int64 {
	next := int64(math.MaxInt64)
	if p := s.index.top(byExpiry); p != nil {
		next = p.Expires + s.grace()
	}
	for i := range s.overdue {
		next = min(next, s.overdue[i].graceDeadline(s.session, s.speed)+s.grace())
	}
	return max(next, s.delayedUntil)
}

// Drop removes the alerts of refs.
func (s *Set) Drop(refs map[engine.Ref]struct{}) {
	s.index.removeAll(refs)
	s.overdue = slices.DeleteFunc(s.overdue, func(p Entry) bool { return in(refs, p.Ref) })
}

// Refs returns the Refs of all alerts.
func (s *Set) Refs() []engine.Ref {
	refs := make([]engine.Ref, 0, s.index.len()+len(s.overdue))
	s.index.each(func(p *Entry) { refs = append(refs, p.Ref) })
	for i := range s.overdue {
		refs = append(refs, s.overdue[i].Ref)
	}
	return refs
}

// LastTime returns the time of the newest price, or 0 without one.
func (s *Set) LastTime() int64 { return s.last.Time }

// ByTicks reports whether the newest price is a trade, not the close of a bar.
func (s *Set) ByTicks() bool { return s.frame < 0 }

// MissedSince records that prices after a time may be missing.
func (s *Set) MissedSince(at int64) { s.last.Time = min(s.last.Time, at) }

// DelayExpiry stops alerts from expiring by the clock alone until the prices of a time that was not
// watched, and ended now, have arrived.
func (s *Set) DelayExpiry(now int64) { s.delayedUntil = now + ExpiryDelay }

// Release returns all alerts with their extremes, to be added to another set. s must not be used afterwards.
func (s *Set) Release() []Entry {
	all := make([]Entry, 0, s.index.len()+len(s.overdue))
	release := func(p *Entry) { all = append(all, s.released(p)) }
	s.index.each(release)
	for i := range s.overdue {
		release(&s.overdue[i])
	}
	return all
}

// released returns p as it stands after the newest price.
func (s *Set) released(p *Entry) Entry {
	r := *p
	r.seen, r.from = s.span(p), max(p.from, s.last.Time)
	return r
}

// Exit gives an exit to the alert of p.Ref. It reports whether that waits for a price after its expiry, whatever
// its exit. Otherwise p replaces it, to be added again, since prices after the exit may have been seen.
func (s *Set) Exit(p *Entry) (overdue bool) {
	if i, ok := s.index.of[p.Ref]; ok {
		former := s.released(&s.index.entries[i])
		p.Replace(&former)
		s.index.remove(p.Ref)
	}
	for i := range s.overdue {
		if s.overdue[i].Ref == p.Ref {
			s.overdue[i].Exit, overdue = p.Exit, true
		}
	}
	return overdue
}

// Add adds alerts, and returns those that began before the newest price, which CatchUp adds.
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

// PastBar is a bar with its timeframe and the time from which there are finer prices.
type PastBar struct {
	marketdata.Bar
	Frame int
	Finer int64
}

// CatchUp replays the prices since late alerts began and adds the alerts that are still active. It
// replays ascending bars of the time before the ticks, then the ticks.
func (s *Set) CatchUp(late []Entry, bars []PastBar, ticks []marketdata.Tick) {
	slices.SortFunc(late, func(x, y Entry) int { return cmp.Compare(x.Since, y.Since) })
	replay := NewSet(s.class, s.speed, s.session, s.notify)
	replay.tradeless = s.tradeless && s.traded == 0
	next := 0
	// begin adds the alerts that began by the time opens, expired before at, or begin in b.
	begin := func(opens, at int64, b PastBar) {
		for next < len(late) && (late[next].Since <= opens || late[next].Expires < at ||
			replay.isFirst(&late[next], b.Frame, b.Bar)) {
			replay.index.add(late[next])
			next++
		}
	}
	replay.replaying = true
	for _, b := range bars {
		// Finer prices decide on an alert that begins and expires within the bar.
		begin(b.OpenTime, min(b.CloseTime, b.Finer), b)
		replay.takeBar(b.Frame, b.Bar)
	}
	replay.replaying = false
	for _, t := range ticks {
		begin(t.Time-1, t.Time, PastBar{})
		replay.Tick(t)
	}
	begin(math.MaxInt64, 0, PastBar{})
	replay.index.each(func(p *Entry) { // no alert is overdue: the newest price ended those
		kept := *p
		kept.seen, kept.from = replay.span(p), s.last.Time
		s.index.add(kept)
	})
}

func in(set map[engine.Ref]struct{}, ref engine.Ref) bool {
	_, ok := set[ref]
	return ok
}
