package lifecycle

import (
	"encoding/json"
	"fmt"
	"math"

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

// exitRequested reports that the agent has asked for the exit; kind is that of the signal from then on.
type exitRequested struct{ kind *kind }

// Messages of the actor to itself.
type (
	expiryDue struct{} // of a signal without prices
	retryDue  struct{} // after a write that failed
)

// signalActor re-scores an open signal and closes it. To save memory for a million signals, all incarnations
// share one value.
type signalActor struct {
	o      *owned
	parent engine.Ref
	r      record
	change *change // the change in progress, or nil
}

// change is an update or the closing of a signal, or an update followed by the closing.
type change struct {
	// next is the changed signal; nil until the closing is appended.
	next    *signal.Signal
	closing *signal.Closing // set if the signal closes, with next or after it
	more    closingMetadata
	// until is the time of what has decided the closing: a trade, the open of a bar, or the expiry.
	until  int64
	failed backoff.Backoff
	tried  bool // and the answer was not received: it may be stored
}

// closingMetadata is what a closing adds to the metadata. The last two are what the chance of a profit follows
// from that the agent gave away.
type closingMetadata struct {
	By        string   `json:"resolved_by,omitempty"` // "backfill": the exit was found in past bars
	Stale     bool     `json:"stale_exit,omitempty"`  // the price was old
	Requested string   `json:"exit_requested_at,omitempty"`
	Left      *float64 `json:"life_left,omitempty"` // as alerts.Exited has it, 6 decimals
}

// backfill is the By of an exit that was found in past bars.
const backfill = "backfill"

// incarnation returns the actor of a new incarnation, without the change that the last one had in progress.
func (a *signalActor) incarnation() engine.Actor {
	a.change = nil
	return a
}

// Receive implements engine.Actor.
func (a *signalActor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		if !a.r.kind.prices {
			c.After(timeOf(a.r.expires).Sub(a.o.now()), expiryDue{})
			if a.r.kind.exit != 0 {
				a.exit(c)
			}
		}
		a.forecast() // the first call makes the forecast be kept up to date
	case alerts.Reached:
		if m.Exit == a.r.kind.exit { // else another alert has replaced its alert
			a.onReached(c, m)
		}
	case alerts.Exited:
		a.onExited(c, m)
	case alerts.Expired:
		if m.Exit == a.r.kind.exit {
			a.onExpired(c, m)
		}
	case exitRequested:
		a.onExitRequested(c, m.kind)
	case alerts.BarClosed:
		a.rescore(c, alerts.LastPrice{Price: m.Price, Span: m.Span, Frame: m.Frame, Left: m.Left})
	case alerts.LastPrice:
		if _, likelihood := a.forecast(); likelihood != a.r.likelihood {
			a.rescore(c, m)
		}
	case alerts.Dropped:
		if !a.closing() {
			a.watchAgain(c)
		}
	case expiryDue:
		a.onExpiryDue(c)
	case appended:
		a.onAppended(c, m)
	case retryDue:
		if a.change != nil {
			a.append(c)
		}
	case engine.Restarting:
		a.watchAgain(c)
	case engine.Stopping:
		if a.r.kind.prices && !a.closing() {
			a.o.market.Unalert(a.r.kind.asset, c.Self())
		}
	}
}

// closing reports whether the signal is about to close.
func (a *signalActor) closing() bool { return a.change != nil && a.change.closing != nil }

// watchAgain requests a new alert, from the signal's creation on.
func (a *signalActor) watchAgain(c engine.Context) {
	if a.r.kind.prices {
		a.parent.Tell(unwatched{a.r.kind.asset, a.r.alert(c.Self())})
	}
}

// recordSpan updates the excursions by the range of the price.
func (a *signalActor) recordSpan(span alerts.Span) {
	if span == (alerts.Span{}) {
		return
	}
	x := strategy.Excursion{Best: a.r.mfe, Worst: a.r.mae}.Observe(a.r.kind.direction, a.r.levels, span.Low, span.High)
	a.r.mfe, a.r.mae = x.Best, x.Worst
}

func (a *signalActor) onReached(c engine.Context, m alerts.Reached) {
	var exit strategy.Exit
	var ok bool
	if m.Bar != nil {
		exit, ok = strategy.ExitOnBar(a.r.kind.direction, a.r.levels, *m.Bar)
	} else {
		exit, ok = strategy.ExitOnTick(a.r.kind.direction, a.r.levels, m.Tick.Price)
	}
	if !ok { // unexpected: the alert has the signal's levels
		a.watchAgain(c)
		return
	}
	a.recordSpan(m.Span)
	if end := strategy.R(a.r.kind.direction, a.r.levels, exit.Price); m.Bar != nil {
		// The signal ends at the level: the bar's range beyond it does not count, and
		// earlier bars did not reach it.
		if exit.Reason == signal.StopLoss {
			a.r.mae = end
		} else {
			a.r.mfe = end
		}
	}
	until := m.Tick.Time
	if m.Bar != nil {
		until = m.Bar.OpenTime
	}
	a.close(c, exit, m.Tick.Time, until, closingMetadata{By: resolvedBy(m.Past)})
}

func (a *signalActor) onExited(c engine.Context, m alerts.Exited) {
	a.recordSpan(m.Span)
	left := math.Round(m.Left*1e6) / 1e6
	a.close(c, strategy.ExitByAgent(m.Tick.Price), m.Tick.Time, m.Tick.Time,
		closingMetadata{By: resolvedBy(m.Past), Left: &left})
}

// onExitRequested makes the signal end by the rules for its agent's exit, from the prices before it on.
func (a *signalActor) onExitRequested(c engine.Context, k *kind) {
	a.r.kind = k
	updating := a.change != nil && a.change.next.Closing == nil
	if a.closing() && a.change.until <= k.exit { // it ended before, and the log refuses that without the exit
		if !updating {
			a.change = &change{closing: a.change.closing, more: a.change.more, until: a.change.until}
			a.appendClosing(c)
		}
		return
	}
	if updating {
		a.change.closing = nil
	} else {
		a.change = nil
	}
	a.exit(c)
}

// exit requests an alert with the exit. A signal without prices ends at once, unless it has expired.
func (a *signalActor) exit(c engine.Context) {
	switch at := timeOf(a.r.kind.exit); {
	case a.r.kind.prices:
		a.watchAgain(c)
	case a.r.kind.exit < a.r.expires:
		a.end(c, signal.Closing{
			Reason:          signal.AgentExit,
			At:              at,
			DurationMinutes: strategy.DurationMinutes(timeOf(a.r.created), at),
		}, a.r.kind.exit, closingMetadata{})
	}
}

// resolvedBy returns closingMetadata.By.
func resolvedBy(past bool) string {
	if past {
		return backfill
	}
	return ""
}

func (a *signalActor) onExpired(c engine.Context, m alerts.Expired) {
	price := m.Price
	if price == 0 {
		price = a.r.levels.Entry // no other price was ever known
	}
	a.recordSpan(m.Span)
	a.close(c, strategy.ExitOnExpiry(price), m.At, m.At, closingMetadata{By: resolvedBy(m.Past), Stale: m.Stale})
}

// close ends the signal at a time, in milliseconds, as change.until is.
func (a *signalActor) close(c engine.Context, exit strategy.Exit, at, until int64, more closingMetadata) {
	a.end(c, strategy.Close(a.r.signal(), exit, timeOf(max(at, a.r.created))), until, more)
}

// onExpiryDue ends a signal without prices.
func (a *signalActor) onExpiryDue(c engine.Context) {
	created, expires := timeOf(a.r.created), timeOf(a.r.expires)
	if left := expires.Sub(a.o.now()); left > 0 { // the clock of Redis lags behind the timer
		c.After(left, expiryDue{})
		return
	}
	a.end(c, signal.Closing{
		Reason:          signal.Expired,
		At:              expires,
		DurationMinutes: strategy.DurationMinutes(created, expires),
	}, a.r.expires, closingMetadata{})
}

// end appends the closing, after an update in progress.
func (a *signalActor) end(c engine.Context, closing signal.Closing, until int64, more closingMetadata) {
	if a.closing() {
		return
	}
	updating := a.change != nil
	if !updating {
		a.change = &change{}
	}
	a.change.closing, a.change.more, a.change.until = &closing, more, until
	if !updating {
		a.appendClosing(c)
	}
}

// rescore re-scores the signal at the current price: at the close of a bar of its
// timeframe, and when a forecast has arrived.
func (a *signalActor) rescore(c engine.Context, m alerts.LastPrice) {
	if a.closing() {
		return
	}
	a.recordSpan(m.Span)
	first, likelihood := a.forecast()
	open := signal.Signal{Levels: &a.r.levels, Reach: a.r.reach, Timeframe: a.r.kind.timeframe, Risk: a.r.kind.risk}
	confidence := strategy.RescoreAt(&open, first, m.Left, m.Price)
	if a.change != nil || !strategy.Moved(a.r.confidence, confidence) || a.updatedThisBar(m.Frame) {
		return
	}
	next := a.r.signal()
	next.Confidence, next.FirstConfidence = confidence, first
	if next.Weather != nil {
		next.Weather.Likelihood = likelihood
	}
	next.Updates = []signal.Update{{Confidence: confidence, Price: m.Price}}
	a.change = &change{next: next}
	a.append(c)
}

// lateShare defines the first part of a bar, 1/lateShare of it, in which an update still
// counts for the bar before, because the close of a bar is reported a little late.
const lateShare = 24

// updatedThisBar reports whether the current bar, of frame milliseconds, had its update.
// It is always false without forecasts, because then updates come only at closes. It uses
// stored values, so that a restart does not change the result.
func (a *signalActor) updatedThisBar(frame int64) bool {
	if a.r.kind.region == "" || a.r.sequence == 1 {
		return false
	}
	bar := func(ms int64) int64 { return (ms - frame/lateShare) / frame }
	return bar(a.r.updated) >= bar(a.o.now().UnixMilli())
}

// forecast returns the first confidence that the signal would have had with the newest
// forecast, and the likelihood in that. Both are stored together, with the next update,
// so that they always belong to the same forecast.
func (a *signalActor) forecast() (first, likelihood float64) {
	first, likelihood = a.r.first, a.r.likelihood
	k := a.r.kind
	if k.region == "" || a.o.options.Forecasts == nil {
		return first, likelihood
	}
	outlook := signal.Outlook{Commodity: k.commodity, Region: k.region, Likelihood: likelihood}
	now, weight, ok := a.o.options.Forecasts.Turned(k.strategy, k.direction, &outlook)
	if !ok {
		return first, likelihood
	}
	// The sum is not clamped, so that a forecast that turns back restores the old value.
	return first + weight*(now-likelihood), now
}

// appendClosing appends the closing.
func (a *signalActor) appendClosing(c engine.Context) {
	next := a.r.signal()
	more := a.change.more
	if a.r.kind.exit != 0 {
		more.Requested = next.ExitRequested.Format(signal.TimeLayout)
	}
	next.Closing, next.Metadata = a.change.closing, nil
	if more != (closingMetadata{}) {
		next.Metadata, _ = json.Marshal(more) // its values can be encoded
	}
	a.change.next = next
	a.append(c)
}

// append asks the parent to append the change.
func (a *signalActor) append(c engine.Context) {
	next := a.change.next
	next.Sequence, next.UpdatedAt = a.r.sequence+1, a.o.now()
	e := signal.Event{Account: next.Account, Asset: next.Asset, Initial: next.Initial}
	if next.Closing != nil {
		e.Type, e.Data = signal.SignalClosed, appendClosed(nil, next)
	} else {
		next.Updates[0].At = next.UpdatedAt
		e.Type, e.Data = signal.SignalUpdated, appendUpdated(nil, next, a.r.confidence)
	}
	a.parent.Tell(write{c.Self(), signal.Change{
		Account: next.Account,
		Events:  []signal.Event{e},
		Signal:  next,
		Epoch:   a.o.Epoch,
	}})
}

func (a *signalActor) onAppended(c engine.Context, m appended) {
	if a.change == nil || a.change.next != m.next {
		return // from an earlier incarnation; if it was stored, the next change is refused once
	}
	switch {
	case m.err == nil:
		a.onStored(c)
	case signal.KindOf(m.err) != signal.KindConflict:
		a.retry(c, m.err)
	case a.o.Refused(m.err):
	case signal.CodeOf(m.err) == signal.CodeExitRequested:
		a.onUnknownExit(c, m)
	case signal.CodeOf(m.err) == signal.CodeSignalChanged:
		a.onChanged(c, m)
	default: // already closed, or erased
		if a.change.tried && m.next.Closing != nil {
			a.o.options.Metrics.closed(m.next) // by an earlier try
		}
		a.parent.Tell(ended{a.r.id, c.Self()})
	}
}

// onUnknownExit handles a change that was refused because the stored signal has another exit than the actor knows.
// The event of a new one is still to come, and decides on a closing.
func (a *signalActor) onUnknownExit(c engine.Context, m appended) {
	switch {
	case !m.next.ExitRequested.IsZero(): // Redis has lost it
		a.o.GiveUp(m.err)
	case m.next.Closing != nil:
	case a.change.closing != nil:
		a.appendClosing(c)
	default:
		a.change = nil
	}
}

// onChanged handles a stored sequence that differs from the expected one. If it equals
// that of the change, a change of this epoch was stored and its answer lost. Anything
// else means that Redis has lost writes: then no actor of the partition can rely on its
// memory, and the owner reloads all of them.
func (a *signalActor) onChanged(c engine.Context, m appended) {
	stored, _ := signal.StoredSequence(m.err)
	switch {
	case stored != m.next.Sequence:
		a.o.GiveUp(m.err)
	case m.next.Closing == nil:
		a.onStored(c) // by an earlier try, or as another update
	default:
		a.r.sequence = stored // that of an update from an earlier incarnation
		a.retry(c, m.err)
	}
}

// retry appends the change again after a pause. The ID of the signal is inside the error of
// its log line, because the filter of repeated lines keys on text attributes: it would treat
// the failures of many signals as different faults.
func (a *signalActor) retry(c engine.Context, err error) {
	a.change.tried = true
	a.o.log.Warn("change of a signal is not stored and will be tried again",
		"err", fmt.Errorf("signal %s: %w", a.r.id, err))
	c.After(a.change.failed.Next(), retryDue{})
}

// onStored continues after the change was stored.
func (a *signalActor) onStored(c engine.Context) {
	done := a.change.next
	if done.Closing != nil {
		a.o.options.Metrics.closed(done)
		a.parent.Tell(ended{a.r.id, c.Self()})
		return
	}
	a.r.first = done.FirstConfidence
	if done.Weather != nil {
		a.r.likelihood = done.Weather.Likelihood
	}
	a.r.confidence, a.r.sequence, a.r.updated = done.Confidence, done.Sequence, done.UpdatedAt.UnixMilli()
	if a.change.closing == nil {
		a.change = nil
		return
	}
	a.appendClosing(c)
}

// appendClosed appends the payload of signal.closed.
func appendClosed(b []byte, s *signal.Signal) []byte {
	c := s.Closing
	b = append(b, `{"signal_id":"`...)
	b = append(b, s.ID...)
	b = append(b, `","asset":`...)
	b = signal.AppendText(b, s.Asset)
	b = append(b, `,"close_reason":"`...)
	b = append(b, c.Reason...)
	b = append(b, `","entry_price":`...)
	var entry *float64
	if s.Levels != nil {
		entry = &s.Levels.Entry
	}
	b = signal.AppendNumber(b, entry)
	b = append(b, ',')
	return append(signal.AppendResult(b, c), '}')
}

// appendUpdated appends the payload of signal.updated; before is the previous confidence.
func appendUpdated(b []byte, s *signal.Signal, before float64) []byte {
	b = signal.AppendMembers(append(b, '{'), s)
	b = append(b, `,"status":"open","updated_at":`...)
	b = signal.AppendTime(b, s.UpdatedAt)
	b = append(b, `,"previous":{"confidence":`...)
	b = signal.AppendConfidence(b, before)
	return append(b, `}}`...)
}
