package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Messages to the parent.
type (
	// created lists events of signals that are new in the log, and of exits.
	created struct{ events []*signal.Event }
	// accountDeleted reports that an account was deleted.
	accountDeleted struct{ id signal.AccountID }
	// forecastArrived reports a new forecast for a question.
	forecastArrived struct{ strategy, commodity, region string }
	// found lists open signals, read from Redis. watched, unless it is nil, is closed once they are watched.
	found struct {
		list    []signal.Signal
		watched chan<- struct{}
	}
	// loaded reports the end of the search for signals that were open at the start, and what
	// the newest event was before it. Without an error all of them have been found.
	loaded struct {
		newest signal.Position
		err    error
	}
	// newRead reports the end of a read of new signals.
	newRead struct {
		ids []signal.SignalID
		err error
	}
	// alerted is the result of adding alerts to an asset.
	alerted struct {
		asset  string
		alerts []pendingAlert
		err    error
	}
	// unwatched reports that a signal has lost its alert.
	unwatched struct {
		asset string
		alert pendingAlert
	}
	// ended reports that a signal is closed or erased.
	ended struct {
		id  signal.SignalID
		ref engine.Ref
	}
)

// Messages of the parent to itself.
type (
	loadDue    struct{}
	alertDue   struct{ asset string }
	readNewDue struct{ ids []signal.SignalID }
)

const (
	// foundPage is the number of signals in one found message.
	foundPage = 1000
	// ioTimeout bounds one read from Redis or call of the market.
	ioTimeout = 10 * time.Second
)

// signalFailures restarts the actor of a signal that panicked. When the parent ends, its
// actors, up to a million, are discarded: their state is in Redis, and the parent removes
// their alerts.
var signalFailures = engine.Supervision{Restarts: 5, Within: time.Minute, Discard: true}

// signals is the parent of the open signals of an owned partition. It bounds their
// requests: alerts are added to an asset in batches, and a limited number of changes is
// appended at once.
type signals struct {
	o        *owned
	children map[signalKey]child
	stopped  map[engine.Ref]struct{} // former children that are stopping
	kinds    kinds
	open     map[string]int       // number of children, by label of their agents
	weather  map[engine.Ref]*kind // children of the weather agent

	complete         bool            // all signals that were open at the start are found
	newest           signal.Position // the last event before the search for them
	createdMeanwhile []*signal.Event // of new signals that were reported before complete

	pending  map[string]*pendingAlerts // alerts that are not added yet, by asset
	warned   bool                      // that alerts cannot be added
	closings writeQueue
	updates  writeQueue
	failed   backoff.Backoff
}

// signalKey is a signal's ID without its prefix, to save memory for a million signals.
type signalKey [16]byte

func keyOf(id signal.SignalID) signalKey {
	raw, _ := signal.ULIDBytes(string(id))
	return raw
}

// child is the actor of a signal.
type child struct {
	ref  engine.Ref
	kind *kind
}

// pendingAlert is an alert that is not added yet.
type pendingAlert struct {
	alerts.Alert
	graceDeadline int64 // when the signal closes if no source has prices of the asset
}

// pendingAlerts are the alerts that are not added to an asset yet.
type pendingAlerts struct {
	alerts []pendingAlert
	busy   bool         // alerts are being added, or a retry is scheduled
	ended  []engine.Ref // actors that ended meanwhile
	failed backoff.Backoff
}

func newSignals(o *owned) *signals {
	return &signals{
		o:        o,
		children: map[signalKey]child{},
		stopped:  map[engine.Ref]struct{}{},
		kinds:    kinds{},
		open:     map[string]int{},
		weather:  map[engine.Ref]*kind{},
		pending:  map[string]*pendingAlerts{},
		closings: writeQueue{max: maxClosings},
		updates:  writeQueue{max: maxUpdates},
	}
}

// Receive implements engine.Actor.
func (s *signals) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		s.o.join(c.Self())
		s.load(c)
	case loadDue:
		s.load(c)
	case loaded:
		s.onLoaded(c, m)
	case created:
		if !s.complete {
			s.createdMeanwhile = append(s.createdMeanwhile, m.events...)
			return
		}
		s.onCreated(c, m.events)
	case readNewDue:
		s.readNew(c, m.ids)
	case newRead:
		s.onNewRead(c, m)
	case found:
		s.watchAll(c, m.list)
		if m.watched != nil {
			close(m.watched)
		}
	case forecastArrived:
		s.onForecastArrived(m)
	case unwatched:
		s.addPending(m.asset, m.alert)
		s.alertAll(c)
	case alertDue:
		s.continueAlerts(c, m.asset, s.pending[m.asset])
	case alerted:
		s.onAlerted(c, m)
	case write:
		if m.change.Signal.Closing != nil {
			s.closings.add(c, s.o, m)
		} else {
			s.updates.add(c, s.o, m)
		}
	case written:
		m.queue.onWritten(c, s.o)
	case ended:
		s.onEnded(c, m)
	case engine.Terminated:
		s.onTerminated(m)
	case accountDeleted:
		s.onAccountDeleted(c, m)
	case engine.Stopping, engine.Restarting:
		s.onEnd(c)
	}
}

// onEnd removes the alerts and metrics of the children, which are discarded with the
// parent.
func (s *signals) onEnd(c engine.Context) {
	s.o.leave(c.Self())
	for label, n := range s.open {
		s.o.options.Metrics.opened(label, -n)
	}
	watching := map[string][]engine.Ref{}
	for _, child := range s.children {
		if child.kind.prices {
			watching[child.kind.asset] = append(watching[child.kind.asset], child.ref)
		}
	}
	for asset, refs := range watching {
		s.o.market.Unalert(asset, refs...)
	}
}

// load finds the signals that were open when the partition was taken over. It reads the next page once this one
// is watched: with a million of them, reading would otherwise take the processors from watching, and no
// signal would close before nearly all are read.
func (s *signals) load(c engine.Context) {
	o, self := s.o, c.Self()
	c.Go(func(ctx context.Context) any {
		newest, err := o.store.LastEvent(ctx, o.Partition)
		if err != nil {
			return loaded{err: err}
		}
		var page []signal.Signal
		err = o.store.OpenSignals(ctx, o.Partition, func(sig signal.Signal, _ signal.Position) error {
			if page = append(page, sig); len(page) < foundPage {
				return ctx.Err()
			}
			watched := make(chan struct{})
			self.Tell(found{page, watched})
			select {
			case <-watched:
			case <-ctx.Done():
			}
			page = page[:0]
			return ctx.Err()
		})
		self.Tell(found{list: page})
		return loaded{newest, err}
	})
}

func (s *signals) onLoaded(c engine.Context, m loaded) {
	if m.err != nil {
		s.failed.Log(s.o.log, "open signals are not readable", "err", m.err)
		c.After(s.failed.Next(), loadDue{})
		return
	}
	s.failed.Reset()
	events := s.createdMeanwhile
	s.complete, s.newest, s.createdMeanwhile = true, m.newest, nil
	s.onCreated(c, events)
}

// onCreated watches new signals. Those of older events may be closed already: they are read.
func (s *signals) onCreated(c engine.Context, events []*signal.Event) {
	var ids []signal.SignalID
	for _, e := range events {
		opened, ok := e.Opened()
		switch {
		case e.Type == signal.ExitRequested:
			if id := signal.SignalID(e.Subject); !s.exit(id, e.Time()) {
				ids = append(ids, id) // it is being read, maybe as it was before
			}
		case ok && e.Position.Compare(s.newest) > 0:
			s.watch(c, &opened)
		case s.children[keyOf(e.Listing.ID)].kind == nil:
			ids = append(ids, e.Listing.ID)
		}
	}
	s.alertAll(c)
	s.readNew(c, ids)
}

// readNew reads signals from Redis that are new or have an exit. Those that are already closed are not found.
func (s *signals) readNew(c engine.Context, ids []signal.SignalID) {
	if len(ids) == 0 {
		return
	}
	o, self := s.o, c.Self()
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, ioTimeout)
		defer cancel()
		list, err := o.store.OpenSignalsOf(ctx, o.Partition, ids)
		if err == nil {
			self.Tell(found{list: list})
		}
		return newRead{ids, err}
	})
}

func (s *signals) onNewRead(c engine.Context, m newRead) {
	if m.err != nil {
		s.failed.Log(s.o.log, "new signals are not readable", "err", m.err)
		c.After(s.failed.Next(), readNewDue{m.ids})
		return
	}
	s.failed.Reset()
}

func (s *signals) watchAll(c engine.Context, list []signal.Signal) {
	for i := range list {
		s.watch(c, &list[i])
	}
	s.alertAll(c)
}

// exit notifies the actor of a signal when its agent has asked for the exit. It is false if there is no actor.
func (s *signals) exit(id signal.SignalID, at time.Time) bool {
	key := keyOf(id)
	child, ok := s.children[key]
	if !ok || child.kind.exit != 0 {
		return ok
	}
	former, k := child.kind, *child.kind
	k.exit = at.UnixMilli()
	child.kind = s.kinds.share(k)
	s.kinds.release(former)
	s.children[key] = child
	child.ref.Tell(exitRequested{child.kind})
	return true
}

// watch starts the actor of a signal, unless it is running.
func (s *signals) watch(c engine.Context, sig *signal.Signal) {
	key := keyOf(sig.ID)
	if _, ok := s.children[key]; ok {
		if !sig.ExitRequested.IsZero() {
			s.exit(sig.ID, sig.ExitRequested)
		}
		return
	}
	a := &signalActor{o: s.o, parent: c.Self(), r: s.kinds.record(sig)}
	r := &a.r
	ref := c.Spawn(engine.Signal, string(r.id), a.incarnation, engine.Supervision{})
	s.children[key] = child{ref, r.kind}
	s.count(r.kind.agent, 1)
	if r.kind.region != "" {
		s.weather[ref] = r.kind
	}
	if r.kind.prices {
		s.addPending(r.kind.asset, r.alert(ref))
	}
}

// count adds n, which may be negative, to the children of an agent.
func (s *signals) count(agent signal.AgentID, n int) {
	s.open[agent.Label()] += n
	s.o.options.Metrics.opened(agent.Label(), n)
}

// alert returns the alert that a signal needs.
func (r *record) alert(ref engine.Ref) pendingAlert {
	l := r.levels
	return pendingAlert{
		Alert: alerts.Alert{
			Ref:     ref,
			Lower:   min(l.Stop, l.Target),
			Upper:   max(l.Stop, l.Target),
			Since:   r.created,
			Expires: r.expires,
			Exit:    r.kind.exit,
			Frame:   r.kind.timeframe,
		},
		graceDeadline: r.graceDeadline(),
	}
}

// graceDeadline returns until when the signal waits for a price after its expiry, in
// milliseconds. It derives the duration of a bar from the signal's own lifetime, because
// the speed of an asset without a source is not stored.
func (r *record) graceDeadline() int64 {
	bar := (r.expires - r.created) / int64(max(1, strategy.Horizon(r.kind.timeframe, r.kind.risk)))
	return r.expires + strategy.GracePeriod(bar)
}

// addPending queues an alert for an asset.
func (s *signals) addPending(asset string, a pendingAlert) {
	w := s.pending[asset]
	if w == nil {
		w = &pendingAlerts{}
		s.pending[asset] = w
	}
	w.alerts = append(w.alerts, a)
}

// alertAll adds the pending alerts to their assets.
func (s *signals) alertAll(c engine.Context) {
	for asset, w := range s.pending {
		if w.busy || len(w.alerts) == 0 {
			continue
		}
		added := w.alerts
		w.alerts, w.busy = nil, true
		o := s.o
		c.Go(func(owner context.Context) any {
			ctx, cancel := context.WithTimeout(owner, ioTimeout)
			defer cancel()
			list := make([]alerts.Alert, len(added))
			for i := range added {
				list[i] = added[i].Alert
			}
			m := alerted{asset, added, o.market.Alert(ctx, asset, list)}
			if owner.Err() != nil { // onEnd may have come before these alerts were added
				refs := make([]engine.Ref, len(added))
				for i := range added {
					refs[i] = added[i].Ref
				}
				o.market.Unalert(asset, refs...)
			}
			return m
		})
	}
}

// onAlerted continues with the next alerts of an asset. If they could not be added, it
// retries after a pause. If no source will ever have prices of the asset, it expires the
// signals whose grace period is over. After a retryable error it does not: their
// levels may have been reached.
func (s *signals) onAlerted(c engine.Context, m alerted) {
	w := s.pending[m.asset]
	if m.err == nil {
		s.warned = false
		if len(w.ended) > 0 {
			s.o.market.Unalert(m.asset, w.ended...) // they ended before their alerts were added
		}
		for i := range m.alerts { // a forecast may have arrived before the alert
			if ref := m.alerts[i].Ref; s.weather[ref] != nil {
				s.o.market.RequestPrice(m.asset, ref)
			}
		}
		w.failed.Reset()
		s.continueAlerts(c, m.asset, w)
		return
	}
	if !s.warned { // one line for all assets of the partition
		s.warned = true
		s.o.log.Warn("signals are not watched: their asset has no prices",
			"asset", m.asset, "signals", len(m.alerts), "err", m.err)
	}
	failure, known := errors.AsType[*signal.RunError](m.err)
	final := known && !failure.Retryable
	now := s.o.now().UnixMilli()
	for _, a := range m.alerts {
		if final && a.graceDeadline < now {
			a.Ref.Tell(alerts.Expired{At: a.graceDeadline, Stale: true, Exit: a.Exit})
		} else {
			w.alerts = append(w.alerts, a)
		}
	}
	c.After(w.failed.Next(), alertDue{m.asset})
}

// continueAlerts adds the pending alerts of an asset, without those of ended actors.
func (s *signals) continueAlerts(c engine.Context, asset string, w *pendingAlerts) {
	if len(w.ended) > 0 {
		w.alerts = slices.DeleteFunc(w.alerts, func(a pendingAlert) bool { return slices.Contains(w.ended, a.Ref) })
	}
	if w.ended, w.busy = nil, false; len(w.alerts) == 0 {
		delete(s.pending, asset)
	}
	s.alertAll(c)
}

// onForecastArrived requests the price for each signal that the forecast concerns; the
// price makes it re-score.
func (s *signals) onForecastArrived(m forecastArrived) {
	for ref, k := range s.weather {
		if m == (forecastArrived{k.strategy, k.commodity, k.region}) {
			s.o.market.RequestPrice(k.asset, ref)
		}
	}
}

// onAccountDeleted ends the actors of an account's signals, which are being erased.
func (s *signals) onAccountDeleted(c engine.Context, m accountDeleted) {
	for key, child := range s.children {
		if child.kind.account == m.id {
			s.end(c, key, child)
		}
	}
}

// onEnded ends the actor of a signal that is closed or erased.
func (s *signals) onEnded(c engine.Context, m ended) {
	if key := keyOf(m.id); s.children[key].ref == m.ref {
		s.end(c, key, s.children[key])
	}
}

// end stops the actor of a signal.
func (s *signals) end(c engine.Context, key signalKey, child child) {
	c.Stop(child.ref)
	s.stopped[child.ref] = struct{}{}
	s.forget(key, child)
}

// forget drops an actor that has ended or is stopping.
func (s *signals) forget(key signalKey, child child) {
	delete(s.children, key)
	delete(s.weather, child.ref)
	s.count(child.kind.agent, -1)
	if w := s.pending[child.kind.asset]; w != nil {
		w.ended = append(w.ended, child.ref)
	}
	s.kinds.release(child.kind)
}

// onTerminated drops an actor that has ended. If it failed too often, its signal is not
// watched until the partition has a new owner.
func (s *signals) onTerminated(m engine.Terminated) {
	if _, ok := s.stopped[m.Ref]; ok {
		delete(s.stopped, m.Ref)
		return
	}
	for key, child := range s.children {
		if child.ref == m.Ref {
			s.forget(key, child)
			s.o.log.Error("a signal is not watched any more: its actor has failed too often", "signal", m.Ref.String())
			return
		}
	}
}
