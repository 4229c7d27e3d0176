package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// appended says how the appending of a change ended.
type appended struct{ err error }

// What a watcher tells itself.
type (
	expiryDue struct{} // of a signal without prices
	retryDue  struct{} // after a write that failed
)

// watcher is the actor of an open signal: it re-scores it and closes it.
type watcher struct {
	o      *owned
	parent engine.Ref
	s      signal.Signal // as Redis has it
	// next is what s becomes by the change that is being appended; nil: none is.
	next  *signal.Signal
	last  *signal.Closing // what came meanwhile: s closes next
	more  json.RawMessage // of the metadata, with the closing
	pause time.Duration
}

func newWatcher(o *owned, parent engine.Ref, s signal.Signal) *watcher {
	return &watcher{o: o, parent: parent, s: s}
}

// Receive implements engine.Actor.
func (w *watcher) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		if w.s.Levels == nil {
			c.After(w.s.ExpiresAt.Sub(w.o.now()), expiryDue{})
		}
	case market.Reached:
		w.onReached(c, m)
	case market.Expired:
		w.onExpired(c, m)
	case market.Closed:
		w.onBar(c, m)
	case market.Dropped:
		w.parent.Tell(unwatched{w.s.Asset, alertFor(&w.s, c.Self())})
	case expiryDue:
		w.onTimeOver(c)
	case appended:
		w.onAppended(c, m)
	case retryDue:
		w.append(c)
	case engine.Restarting:
		// The next incarnation begins with what Redis had when the first one began.
		w.parent.Tell(unwatched{w.s.Asset, alertFor(&w.s, c.Self())})
	case engine.Stopping:
		if w.s.Levels != nil && w.last == nil {
			w.o.market.Unalert(w.s.Asset, c.Self())
		}
	}
}

// see notes how far the price went.
func (w *watcher) see(span market.Span) {
	if span == (market.Span{}) {
		return
	}
	x := strategy.Excursion{Best: w.s.MFE, Worst: w.s.MAE}.Observe(w.s.Direction, *w.s.Levels, span.Low, span.High)
	w.s.MFE, w.s.MAE = x.Best, x.Worst
}

func (w *watcher) onReached(c engine.Context, m market.Reached) {
	var exit strategy.Exit
	var ok bool
	if m.Bar != nil {
		exit, ok = strategy.ExitOnBar(w.s.Direction, *w.s.Levels, *m.Bar)
	} else {
		exit, ok = strategy.ExitOnTick(w.s.Direction, *w.s.Levels, m.Tick.Price)
	}
	if !ok { // the levels of the alert are those of the signal
		w.parent.Tell(unwatched{w.s.Asset, alertFor(&w.s, c.Self())})
		return
	}
	w.see(m.Span)
	w.close(c, exit, m.Tick.Time, m.Past, false)
}

func (w *watcher) onExpired(c engine.Context, m market.Expired) {
	price := m.Price
	if price == 0 {
		price = w.s.Levels.Entry // no other was ever known
	}
	w.see(m.Span)
	w.close(c, strategy.ExitOnExpiry(price), m.At, m.Past, m.Stale)
}

// close ends the signal at a time, in milliseconds. past says that it is made up by
// bars, stale that its price was old.
func (w *watcher) close(c engine.Context, exit strategy.Exit, at int64, past, stale bool) {
	if w.last != nil {
		return
	}
	closing := strategy.Close(&w.s, exit, time.UnixMilli(max(at, w.s.CreatedAt.UnixMilli())).UTC())
	w.last = &closing
	switch {
	case past && stale:
		w.more = json.RawMessage(`{"resolved_by":"backfill","stale_exit":true}`)
	case past:
		w.more = json.RawMessage(`{"resolved_by":"backfill"}`)
	case stale:
		w.more = json.RawMessage(`{"stale_exit":true}`)
	}
	w.advance(c)
}

// onTimeOver ends a signal without prices.
func (w *watcher) onTimeOver(c engine.Context) {
	if left := w.s.ExpiresAt.Sub(w.o.now()); left > 0 { // the clock of Redis was behind
		c.After(left, expiryDue{})
		return
	}
	if w.last == nil {
		w.last = &signal.Closing{Reason: signal.Expired, At: w.s.ExpiresAt,
			DurationMinutes: strategy.DurationMinutes(w.s.CreatedAt, w.s.ExpiresAt)}
		w.advance(c)
	}
}

// onBar re-scores the signal at the close of a bar of its timeframe.
func (w *watcher) onBar(c engine.Context, m market.Closed) {
	if w.last != nil {
		return
	}
	w.see(m.Span)
	confidence := strategy.Rescore(w.s.FirstConfidence, *w.s.Levels, m.Price)
	if w.next != nil || !strategy.Moved(w.s.Confidence, confidence) {
		return
	}
	next := w.s
	next.Confidence = confidence
	w.next = &next
	w.append(c)
}

// advance appends the closing, or waits until an update is appended.
func (w *watcher) advance(c engine.Context) {
	if w.next != nil {
		return
	}
	next := w.s
	next.Closing, next.Metadata = w.last, w.more
	w.next = &next
	w.append(c)
}

// append has the change to next appended.
func (w *watcher) append(c engine.Context) {
	next := w.next
	next.Sequence, next.UpdatedAt = w.s.Sequence+1, w.o.now()
	e := signal.Event{Account: next.Account, Asset: next.Asset}
	if next.Closing != nil {
		e.Type, e.Data = signal.SignalClosed, appendClosed(nil, next)
	} else {
		e.Type, e.Data = signal.SignalUpdated, appendUpdated(nil, next, w.s.Confidence)
	}
	w.parent.Tell(write{c.Self(), signal.Change{Account: next.Account, Events: []signal.Event{e}, Signal: next, Epoch: w.o.epoch}})
}

func (w *watcher) onAppended(c engine.Context, m appended) {
	switch {
	case m.err == nil:
		w.pause = 0
		done := w.next
		w.next = nil
		if done.Closing != nil {
			w.o.options.Metrics.closed(done)
			w.parent.Tell(ended{w.s.ID, c.Self()})
			return
		}
		w.s.Confidence, w.s.Sequence, w.s.UpdatedAt = done.Confidence, done.Sequence, done.UpdatedAt
		if w.last != nil {
			w.advance(c)
		}
	case signal.KindOf(m.err) == signal.KindConflict && signal.CodeOf(m.err) == codeNotOwner:
		w.o.owner.Tell(Lost{m.err})
	case signal.KindOf(m.err) == signal.KindConflict:
		w.parent.Tell(ended{w.s.ID, c.Self()}) // closed already, or erased
	default:
		if w.pause == 0 {
			w.o.log.Warn("change of a signal is not stored", "signal", string(w.s.ID), "err", m.err)
		}
		w.pause = grown(w.pause)
		c.After(w.pause, retryDue{})
	}
}

// codeNotOwner is the refusal of a write by an owner that is none any more.
const codeNotOwner = "not_owner"
