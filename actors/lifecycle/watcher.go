package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// appended is the result of appending the change to next.
type appended struct {
	next *signal.Signal
	err  error
}

// Messages of a watcher to itself.
type (
	expiryDue struct{} // of a signal without prices
	retryDue  struct{} // after a write that failed
)

// watcher is the actor of an open signal: it re-scores it and closes it.
type watcher struct {
	o      *owned
	parent engine.Ref
	r      *record
	change *change // the change in progress, or nil
}

// change is an update or the closing of a signal, or an update followed by the closing.
type change struct {
	// next is the changed signal; nil until the closing is appended.
	next    *signal.Signal
	closing *signal.Closing // set if the signal closes, with next or after it
	more    json.RawMessage // metadata of the closing
	failed  backoff.Backoff
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
		w.forecast() // the first call makes the forecast be kept up to date
	case alerts.Reached:
		w.onReached(c, m)
	case alerts.Expired:
		w.onExpired(c, m)
	case alerts.BarClosed:
		w.rescore(c, alerts.LastPrice{Price: m.Price, Span: m.Span, Frame: m.Frame, Left: m.Left})
	case alerts.LastPrice:
		if _, likelihood := w.forecast(); likelihood != w.r.likelihood {
			w.rescore(c, m)
		}
	case alerts.Dropped:
		if !w.closing() {
			w.watchAgain(c)
		}
	case expiryDue:
		w.onExpiryDue(c)
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

// closing reports whether the signal is about to close.
func (w *watcher) closing() bool { return w.change != nil && w.change.closing != nil }

// watchAgain requests a new alert, from the signal's creation on.
func (w *watcher) watchAgain(c engine.Context) {
	if w.r.kind.prices {
		w.parent.Tell(unwatched{w.r.kind.asset, w.r.alert(c.Self())})
	}
}

// recordSpan updates the excursions by the range of the price.
func (w *watcher) recordSpan(span alerts.Span) {
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
	if !ok { // unexpected: the alert has the signal's levels
		w.watchAgain(c)
		return
	}
	w.recordSpan(m.Span)
	if end := strategy.R(w.r.kind.direction, w.r.levels, exit.Price); m.Bar != nil {
		// The signal ends at the level: the bar's range beyond it does not count, and
		// earlier bars did not reach it.
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
		price = w.r.levels.Entry // no other price was ever known
	}
	w.recordSpan(m.Span)
	w.close(c, strategy.ExitOnExpiry(price), m.At, m.Past, m.Stale)
}

// close ends the signal at a time, in milliseconds. past means that the exit was found
// in past bars, stale that its price was old.
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

// onExpiryDue ends a signal without prices.
func (w *watcher) onExpiryDue(c engine.Context) {
	created, expires := timeOf(w.r.created), timeOf(w.r.expires)
	if left := expires.Sub(w.o.now()); left > 0 { // the clock of Redis lags behind the timer
		c.After(left, expiryDue{})
		return
	}
	w.end(c, signal.Closing{
		Reason:          signal.Expired,
		At:              expires,
		DurationMinutes: strategy.DurationMinutes(created, expires),
	}, nil)
}

// end appends the closing, after an update in progress.
func (w *watcher) end(c engine.Context, closing signal.Closing, more json.RawMessage) {
	if w.closing() {
		return
	}
	updating := w.change != nil
	if !updating {
		w.change = &change{}
	}
	w.change.closing, w.change.more = &closing, more
	if !updating {
		w.appendClosing(c)
	}
}

// rescore re-scores the signal at the current price: at the close of a bar of its
// timeframe, and when a forecast has arrived.
func (w *watcher) rescore(c engine.Context, m alerts.LastPrice) {
	if w.closing() {
		return
	}
	w.recordSpan(m.Span)
	first, likelihood := w.forecast()
	confidence := strategy.Rescore(first, w.r.levels, w.r.kind.timeframe, w.r.kind.risk, m.Left, m.Price)
	if w.change != nil || !strategy.Moved(w.r.confidence, confidence) || w.updatedThisBar(m.Frame) {
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

// lateShare defines the first part of a bar, 1/lateShare of it, in which an update still
// counts for the bar before, because the close of a bar is reported a little late.
const lateShare = 24

// updatedThisBar reports whether the current bar, of frame milliseconds, had its update.
// It is always false without forecasts, because then updates come only at closes. It uses
// stored values, so that a restart does not change the result.
func (w *watcher) updatedThisBar(frame int64) bool {
	if w.r.kind.region == "" || w.r.sequence == 1 {
		return false
	}
	bar := func(ms int64) int64 { return (ms - frame/lateShare) / frame }
	return bar(w.r.updated) >= bar(w.o.now().UnixMilli())
}

// forecast returns the first confidence that the signal would have had with the newest
// forecast, and the likelihood in that. Both are stored together, with the next update,
// so that they always belong to the same forecast.
func (w *watcher) forecast() (first, likelihood float64) {
	first, likelihood = w.r.first, w.r.likelihood
	k := w.r.kind
	if k.region == "" || w.o.options.Forecasts == nil {
		return first, likelihood
	}
	outlook := signal.Outlook{Commodity: k.commodity, Region: k.region, Likelihood: likelihood}
	now, weight, ok := w.o.options.Forecasts.Turned(k.strategy, k.direction, &outlook)
	if !ok {
		return first, likelihood
	}
	// The sum is not clamped, so that a forecast that turns back restores the old value.
	return first + weight*(now-likelihood), now
}

// appendClosing appends the closing.
func (w *watcher) appendClosing(c engine.Context) {
	next := w.r.signal()
	next.Closing, next.Metadata = w.change.closing, w.change.more
	w.change.next = next
	w.append(c)
}

// append asks the parent to append the change.
func (w *watcher) append(c engine.Context) {
	next := w.change.next
	next.Sequence, next.UpdatedAt = w.r.sequence+1, w.o.now()
	e := signal.Event{Account: next.Account, Asset: next.Asset}
	if next.Closing != nil {
		e.Type, e.Data = signal.SignalClosed, appendClosed(nil, next)
	} else {
		e.Type, e.Data = signal.SignalUpdated, appendUpdated(nil, next, w.r.confidence)
	}
	w.parent.Tell(write{c.Self(), signal.Change{
		Account: next.Account,
		Events:  []signal.Event{e},
		Signal:  next,
		Epoch:   w.o.Epoch,
	}})
}

func (w *watcher) onAppended(c engine.Context, m appended) {
	if w.change == nil || w.change.next != m.next {
		return // from an earlier incarnation; if it was stored, the next change is refused once
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
		w.parent.Tell(ended{w.r.id, c.Self()}) // already closed, or erased
	}
}

// onChanged handles a stored sequence that differs from the expected one. If it equals
// that of the change, a change of this epoch was stored and its answer lost. Anything
// else means that Redis has lost writes: then no watcher of the partition can rely on its
// memory, and the owner reloads all of them.
func (w *watcher) onChanged(c engine.Context, m appended) {
	stored, _ := signal.StoredSequence(m.err)
	switch {
	case stored != m.next.Sequence:
		w.o.GiveUp(m.err)
	case m.next.Closing == nil:
		w.onStored(c) // by an earlier try, or as another update
	default:
		w.r.sequence = stored // that of an update from an earlier incarnation
		w.retry(c, m.err)
	}
}

// retry appends the change again after a pause. The ID of the signal is inside the error of
// its log line, because the filter of repeated lines keys on text attributes: it would treat
// the failures of many signals as different faults.
func (w *watcher) retry(c engine.Context, err error) {
	w.o.log.Warn("change of a signal is not stored and will be tried again",
		"err", fmt.Errorf("signal %s: %w", w.r.id, err))
	c.After(w.change.failed.Next(), retryDue{})
}

// onStored continues after the change was stored.
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
