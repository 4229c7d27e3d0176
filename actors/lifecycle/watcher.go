package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// appended says how the appending of a change ended: that to next.
type appended struct {
	next *signal.Signal
	err  error
}

// What a watcher tells itself.
type (
	expiryDue struct{} // of a signal without prices
	retryDue  struct{} // after a write that failed
)

// watcher is the actor of an open signal: it re-scores it and closes it.
type watcher struct {
	o      *owned
	parent engine.Ref
	r      *record
	change *change // what is being appended, or will be next; nil: nothing
}

// change is what becomes of a signal.
type change struct {
	// next is the signal as it will be; nil while only closing is known.
	next    *signal.Signal
	closing *signal.Closing // the signal closes with next, or behind it
	more    json.RawMessage // of the metadata, with the closing
	failed  engine.Backoff  // tries
}

func newWatcher(o *owned, parent engine.Ref, r *record) *watcher {
	return &watcher{o: o, parent: parent, r: r}
}

// Receive implements engine.Actor.
func (w *watcher) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		if !w.r.kind.prices {
			c.After(timeOf(w.r.expires).Sub(w.o.now()), expiryDue{})
		}
		w.forecast() // from now on the forecast is kept up to date
	case alerts.Reached:
		w.onReached(c, m)
	case alerts.Expired:
		w.onExpired(c, m)
	case alerts.BarClosed:
		w.rescore(c, alerts.LastPrice{Price: m.Price, Span: m.Span, Frame: m.Frame})
	case alerts.LastPrice:
		if _, likelihood := w.forecast(); likelihood != w.r.likelihood {
			w.rescore(c, m)
		}
	case alerts.Dropped:
		if !w.closing() {
			w.watchAgain(c)
		}
	case expiryDue:
		w.onTimeOver(c)
	case appended:
		w.onAppended(c, m)
	case retryDue:
		w.append(c)
	case engine.Restarting:
		w.watchAgain(c)
	case engine.Stopping:
		if w.r.kind.prices && !w.closing() {
			w.o.market.Unalert(w.r.kind.asset, c.Self())
		}
	}
}

// closing says that the signal is about to close.
func (w *watcher) closing() bool { return w.change != nil && w.change.closing != nil }

// watchAgain has the signal's asset watched once more, from the beginning.
func (w *watcher) watchAgain(c engine.Context) {
	if w.r.kind.prices {
		w.parent.Tell(unwatched{w.r.kind.asset, w.r.alert(c.Self())})
	}
}

// see notes how far the price went.
func (w *watcher) see(span alerts.Span) {
	if span == (alerts.Span{}) {
		return
	}
	x := strategy.Excursion{Best: w.r.mfe, Worst: w.r.mae}.Observe(w.r.kind.direction, w.r.levels, span.Low, span.High)
	w.r.mfe, w.r.mae = x.Best, x.Worst
}

func (w *watcher) onReached(c engine.Context, m alerts.Reached) {
	var exit strategy.Exit
	var ok bool
	if m.Bar != nil {
		exit, ok = strategy.ExitOnBar(w.r.kind.direction, w.r.levels, *m.Bar)
	} else {
		exit, ok = strategy.ExitOnTick(w.r.kind.direction, w.r.levels, m.Tick.Price)
	}
	if !ok { // the levels of the alert are those of the signal
		w.watchAgain(c)
		return
	}
	w.see(m.Span)
	if end := strategy.R(w.r.kind.direction, w.r.levels, exit.Price); m.Bar != nil {
		// What the bar did beyond the level belongs to nobody; the bars before did not reach it.
		if exit.Reason == signal.StopLoss {
			w.r.mae = end
		} else {
			w.r.mfe = end
		}
	}
	w.close(c, exit, m.Tick.Time, m.Past, false)
}

func (w *watcher) onExpired(c engine.Context, m alerts.Expired) {
	price := m.Price
	if price == 0 {
		price = w.r.levels.Entry // no other was ever known
	}
	w.see(m.Span)
	w.close(c, strategy.ExitOnExpiry(price), m.At, m.Past, m.Stale)
}

// close ends the signal at a time, in milliseconds. past says that it is made up by
// bars, stale that its price was old.
func (w *watcher) close(c engine.Context, exit strategy.Exit, at int64, past, stale bool) {
	closing := strategy.Close(w.r.signal(), exit, timeOf(max(at, w.r.created)))
	var more json.RawMessage
	switch {
	case past && stale:
		more = json.RawMessage(`{"resolved_by":"backfill","stale_exit":true}`)
	case past:
		more = json.RawMessage(`{"resolved_by":"backfill"}`)
	case stale:
		more = json.RawMessage(`{"stale_exit":true}`)
	}
	w.end(c, closing, more)
}

// onTimeOver ends a signal without prices.
func (w *watcher) onTimeOver(c engine.Context) {
	created, expires := timeOf(w.r.created), timeOf(w.r.expires)
	if left := expires.Sub(w.o.now()); left > 0 { // the clock of Redis was behind
		c.After(left, expiryDue{})
		return
	}
	w.end(c, signal.Closing{Reason: signal.Expired, At: expires, DurationMinutes: strategy.DurationMinutes(created, expires)}, nil)
}

// end has the closing appended, behind an update that is under way.
func (w *watcher) end(c engine.Context, closing signal.Closing, more json.RawMessage) {
	if w.closing() {
		return
	}
	underWay := w.change != nil
	if !underWay {
		w.change = &change{}
	}
	w.change.closing, w.change.more = &closing, more
	if !underWay {
		w.appendClosing(c)
	}
}

// rescore re-scores the signal at the current price: at the close of a bar of its
// timeframe, and when a forecast has arrived.
func (w *watcher) rescore(c engine.Context, m alerts.LastPrice) {
	if w.closing() {
		return
	}
	w.see(m.Span)
	first, likelihood := w.forecast()
	confidence := strategy.Rescore(first, w.r.levels, m.Price)
	if w.change != nil || !strategy.Moved(w.r.confidence, confidence) || w.updatedIn(m.Frame) {
		return
	}
	next := w.r.signal()
	next.Confidence, next.FirstConfidence = confidence, first
	if next.Weather != nil {
		next.Weather.Likelihood = likelihood
	}
	w.change = &change{next: next}
	w.append(c)
}

// lateShare is the part of a bar, 1/lateShare, after its opening in which an update still
// counts for the bar before: its close is told a little later.
const lateShare = 24

// updatedIn says that the bar that is open, one of so many milliseconds, had its update.
// Where there are no forecasts updates come at closes only, each in a bar of its own. It
// goes by what is stored, so that it is the same after a restart.
func (w *watcher) updatedIn(frame int64) bool {
	if w.r.kind.region == "" || w.r.sequence == 1 {
		return false
	}
	bar := func(ms int64) int64 { return (ms - frame/lateShare) / frame }
	return bar(w.r.updated) >= bar(w.o.now().UnixMilli())
}

// forecast returns the first confidence as it would be if the signal had been made on
// the strength of the newest forecast, and the likelihood by that. Both are stored with
// the next update, together, so that what is known before and after it is the same.
func (w *watcher) forecast() (first, likelihood float64) {
	first, likelihood = w.r.first, w.r.likelihood
	k := w.r.kind
	if k.region == "" || w.o.options.Forecasts == nil {
		return first, likelihood
	}
	now, weight, ok := w.o.options.Forecasts.Turned(k.strategy, k.direction, &signal.Outlook{Commodity: k.commodity, Region: k.region, Likelihood: likelihood})
	if !ok {
		return first, likelihood
	}
	return first + weight*(now-likelihood), now // not bounded: forecasts that turn back lead back
}

// appendClosing has the closing appended.
func (w *watcher) appendClosing(c engine.Context) {
	next := w.r.signal()
	next.Closing, next.Metadata = w.change.closing, w.change.more
	w.change.next = next
	w.append(c)
}

// append has the change appended.
func (w *watcher) append(c engine.Context) {
	next := w.change.next
	next.Sequence, next.UpdatedAt = w.r.sequence+1, w.o.now()
	e := signal.Event{Account: next.Account, Asset: next.Asset}
	if next.Closing != nil {
		e.Type, e.Data = signal.SignalClosed, appendClosed(nil, next)
	} else {
		e.Type, e.Data = signal.SignalUpdated, appendUpdated(nil, next, w.r.confidence)
	}
	w.parent.Tell(write{c.Self(), signal.Change{Account: next.Account, Events: []signal.Event{e}, Signal: next, Epoch: w.o.Epoch}})
}

func (w *watcher) onAppended(c engine.Context, m appended) {
	if w.change == nil || w.change.next != m.next {
		return // of an incarnation before; if it was stored, the next change is refused once
	}
	switch {
	case m.err == nil:
		w.onStored(c)
	case signal.KindOf(m.err) != signal.KindConflict:
		w.retry(c, m.err)
	case w.o.Refused(m.err):
	case signal.CodeOf(m.err) == signal.CodeSignalChanged:
		w.onChanged(c, m)
	default:
		w.parent.Tell(ended{w.r.id, c.Self()}) // closed already, or erased
	}
}

// onChanged goes on where the signal is stored with another sequence than expected. One
// more is a change of this epoch whose answer was lost. Anything else means that Redis has
// lost writes: then no watcher of the partition can rely on what it holds in memory, and
// the owner loads them all again.
func (w *watcher) onChanged(c engine.Context, m appended) {
	stored, _ := signal.StoredSequence(m.err)
	switch {
	case stored != m.next.Sequence:
		w.o.GiveUp(m.err)
	case m.next.Closing == nil:
		w.onStored(c) // at a try before, or another update in its place
	default:
		w.r.sequence = stored // of an update that an incarnation before had under way
		w.retry(c, m.err)
	}
}

// retry has the change appended again after a pause. Its log line names the signal within
// the error: as a text attribute it would make the failures of many signals different
// faults for the handler that limits repeated lines.
func (w *watcher) retry(c engine.Context, err error) {
	w.o.log.Warn("change of a signal is not stored and will be tried again", "err", fmt.Errorf("signal %s: %w", w.r.id, err))
	c.After(w.change.failed.Next(), retryDue{})
}

// onStored goes on when the change is stored.
func (w *watcher) onStored(c engine.Context) {
	done := w.change.next
	if done.Closing != nil {
		w.o.options.Metrics.closed(done)
		w.parent.Tell(ended{w.r.id, c.Self()})
		return
	}
	w.r.first = done.FirstConfidence
	if done.Weather != nil {
		w.r.likelihood = done.Weather.Likelihood
	}
	w.r.confidence, w.r.sequence, w.r.updated = done.Confidence, done.Sequence, done.UpdatedAt.UnixMilli()
	if w.change.closing == nil {
		w.change = nil
		return
	}
	w.appendClosing(c)
}
