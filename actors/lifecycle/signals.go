package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// What the parent hears of.
type (
	// created are signals that are new in the log.
	created struct{ ids []signal.SignalID }
	// accountDeleted says that an account is gone.
	accountDeleted struct{ id signal.AccountID }
	// forecastArrived says that a new forecast of a question is known.
	forecastArrived struct{ strategy, commodity, region string }
	// found are open signals as Redis holds them.
	found struct{ list []signal.Signal }
	// loaded says how the search for those that were open at the start ended: if there is
	// no error, all have been found.
	loaded struct{ err error }
	// looked says how a look for new signals ended.
	looked struct {
		ids []signal.SignalID
		err error
	}
	// alerted says how alerts were added to an asset.
	alerted struct {
		asset  string
		alerts []wanted
		err    error
	}
	// write asks for a change to be appended; ref, unless it has ended, is told appended.
	write struct {
		ref    engine.Ref
		change signal.Change
	}
	// written says that one was.
	written struct{}
	// unwatched says that a signal has no alert any more.
	unwatched struct {
		asset string
		alert wanted
	}
	// ended says that a signal is closed.
	ended struct {
		id  signal.SignalID
		ref engine.Ref
	}
)

// What the parent tells itself.
type (
	loadDue  struct{}
	alertDue struct{ asset string }
	lookDue  struct{ ids []signal.SignalID }
)

const (
	// foundAtOnce is how many signals the parent is told of in one message.
	foundAtOnce = 1000
	// maxWrites is how many changes are appended at once for a partition: enough to
	// fill the log's batches.
	maxWrites = 256
	// ioTimeout bounds one question to Redis or the market, appendTimeout one write.
	ioTimeout     = 10 * time.Second
	appendTimeout = 10 * time.Second
)

// signalFailures restarts the actor of a signal that panicked. There may be a million,
// and what they know is in Redis: when the parent ends, it takes their alerts back, and
// they end with it.
var signalFailures = engine.Supervision{Restarts: 5, Within: time.Minute, Discard: true}

// signals is the parent of the open signals of an owned partition. It keeps what they
// ask for within bounds: alerts go to an asset together, and so many changes are
// appended at once and no more.
type signals struct {
	o        *owned
	children map[signalKey]child
	stopped  map[engine.Ref]struct{} // former children that have been told to stop
	kinds    kinds
	open     map[signal.AgentID]int // children
	weather  map[engine.Ref]*kind   // children that rest on weather

	complete bool              // those that were open at the start have been found
	early    []signal.SignalID // new ones that were told before; most of them are found

	wanted map[string]*wish // alerts that are not added yet, by asset
	warned bool             // that some cannot be
	queue  []write
	writes int // under way
	failed engine.Backoff
}

// signalKey is a signal's identifier without its prefix, of which a million are kept.
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

// wanted is an alert that an asset is to get.
type wanted struct {
	alerts.Alert
	patience int64 // until when the signal is open if nobody gives prices of the asset
}

// wish are the alerts that an asset is to get.
type wish struct {
	alerts []wanted
	busy   bool         // some are being added, or a pause lasts
	gone   []engine.Ref // actors that ended meanwhile
	failed engine.Backoff
}

func newSignals(o *owned) *signals {
	return &signals{o: o, children: map[signalKey]child{}, stopped: map[engine.Ref]struct{}{}, kinds: kinds{}, open: map[signal.AgentID]int{},
		weather: map[engine.Ref]*kind{}, wanted: map[string]*wish{}}
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
			s.early = append(s.early, m.ids...)
			return
		}
		s.look(c, m.ids)
	case lookDue:
		s.look(c, m.ids)
	case looked:
		s.onLooked(c, m)
	case found:
		for i := range m.list {
			s.watch(c, &m.list[i])
		}
		s.alertAll(c)
	case forecastArrived:
		s.onForecastArrived(m)
	case unwatched:
		s.want(m.asset, m.alert)
		s.alertAll(c)
	case alertDue:
		s.onAlertDue(c, m)
	case alerted:
		s.onAlerted(c, m)
	case write:
		s.queue = append(s.queue, m)
		s.writeNext(c)
	case written:
		s.writes--
		s.writeNext(c)
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

// onEnd takes back what the children hold beyond their memory: they end with the parent.
func (s *signals) onEnd(c engine.Context) {
	s.o.leave(c.Self())
	for agent, n := range s.open {
		s.o.options.Metrics.opened(agent, -n)
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

// load finds the signals that were open before.
func (s *signals) load(c engine.Context) {
	o, self := s.o, c.Self()
	c.Go(func(ctx context.Context) any {
		var page []signal.Signal
		err := o.store.OpenSignals(ctx, o.Partition, func(sig signal.Signal, _ signal.Position) error {
			if page = append(page, sig); len(page) == foundAtOnce {
				self.Tell(found{page})
				page = nil
			}
			return ctx.Err()
		})
		self.Tell(found{page})
		return loaded{err}
	})
}

func (s *signals) onLoaded(c engine.Context, m loaded) {
	if m.err != nil {
		s.failed.Log(s.o.log, "open signals are not readable", "err", m.err)
		c.After(s.failed.Next(), loadDue{})
		return
	}
	s.failed.Reset()
	early := s.early
	s.complete, s.early = true, nil
	s.look(c, early)
}

// look reads new signals from Redis. Those that are closed already are not there.
func (s *signals) look(c engine.Context, ids []signal.SignalID) {
	ids = slices.DeleteFunc(ids, func(id signal.SignalID) bool {
		_, watched := s.children[keyOf(id)]
		return watched
	})
	if len(ids) == 0 {
		return
	}
	o, self := s.o, c.Self()
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, ioTimeout)
		defer cancel()
		list, err := o.store.OpenSignalsOf(ctx, o.Partition, ids)
		if err == nil {
			self.Tell(found{list})
		}
		return looked{ids, err}
	})
}

func (s *signals) onLooked(c engine.Context, m looked) {
	if m.err != nil {
		s.failed.Log(s.o.log, "new signals are not readable", "err", m.err)
		c.After(s.failed.Next(), lookDue{m.ids})
		return
	}
	s.failed.Reset()
}

// watch starts the actor of a signal, unless it is there.
func (s *signals) watch(c engine.Context, sig *signal.Signal) {
	key := keyOf(sig.ID)
	if _, ok := s.children[key]; ok {
		return
	}
	o, self, r := s.o, c.Self(), s.kinds.record(sig)
	ref := c.Spawn(engine.Signal, string(r.id), func() engine.Actor { return newWatcher(o, self, r) }, engine.Supervision{})
	s.children[key] = child{ref, r.kind}
	s.count(r.kind.agent, 1)
	if r.kind.region != "" {
		s.weather[ref] = r.kind
	}
	if r.kind.prices {
		s.want(r.kind.asset, r.alert(ref))
	}
}

// count notes that there are n more children of an agent.
func (s *signals) count(agent signal.AgentID, n int) {
	s.open[agent] += n
	s.o.options.Metrics.opened(agent, n)
}

// alert returns what a signal wants to be told of.
func (r *record) alert(ref engine.Ref) wanted {
	l := r.levels
	return wanted{alerts.Alert{Ref: ref, Lower: min(l.Stop, l.Target), Upper: max(l.Stop, l.Target), Since: r.created, Expires: r.expires,
		Frame: r.kind.timeframe}, r.patience()}
}

// patience returns until when the signal waits for a price after its expiry, in
// milliseconds. How long its bars lasted is known of its life alone: that of an asset of
// which nobody gives prices any more is not stored.
func (r *record) patience() int64 {
	bar := (r.expires - r.created) / int64(max(1, strategy.Horizon(r.kind.timeframe, r.kind.risk)))
	return r.expires + strategy.Patience(bar)
}

// want notes an alert that an asset is to get.
func (s *signals) want(asset string, a wanted) {
	w := s.wanted[asset]
	if w == nil {
		w = &wish{}
		s.wanted[asset] = w
	}
	w.alerts = append(w.alerts, a)
}

// alertAll adds the alerts that wait to their assets.
func (s *signals) alertAll(c engine.Context) {
	for asset, w := range s.wanted {
		if w.busy || len(w.alerts) == 0 {
			continue
		}
		added := w.alerts
		w.alerts, w.busy = nil, true
		o := s.o
		c.Go(func(owner context.Context) any {
			ctx, cancel := context.WithTimeout(owner, ioTimeout)
			defer cancel()
			told := make([]alerts.Alert, len(added))
			for i := range added {
				told[i] = added[i].Alert
			}
			m := alerted{asset, added, o.market.Alert(ctx, asset, told)}
			if owner.Err() != nil { // its actors have ended, perhaps before the asset heard of them
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

// onAlerted goes on with an asset. One of which there are no prices is asked for again;
// if nobody gives any, what should have ended long ago is told so. While it is only not
// known who does, what has happened is not known either.
func (s *signals) onAlerted(c engine.Context, m alerted) {
	w := s.wanted[m.asset]
	if m.err == nil {
		s.warned = false
		if len(w.gone) > 0 {
			s.o.market.Unalert(m.asset, w.gone...) // they took back what was not there yet
		}
		for i := range m.alerts { // a forecast may have arrived before
			if ref := m.alerts[i].Ref; s.weather[ref] != nil {
				s.o.market.Quote(m.asset, ref)
			}
		}
		w.failed.Reset()
		s.goOn(c, m.asset, w)
		return
	}
	if !s.warned { // one line for all assets of the partition
		s.warned = true
		s.o.log.Warn("signals are not watched: their asset has no prices", "asset", m.asset, "signals", len(m.alerts), "err", m.err)
	}
	failure, known := errors.AsType[*signal.RunError](m.err)
	final := known && !failure.Retryable
	now := s.o.now().UnixMilli()
	for _, a := range m.alerts {
		if final && a.patience < now {
			a.Ref.Tell(alerts.Expired{At: a.patience, Stale: true})
		} else {
			w.alerts = append(w.alerts, a)
		}
	}
	c.After(w.failed.Next(), alertDue{m.asset})
}

// onAlertDue asks for an asset again.
func (s *signals) onAlertDue(c engine.Context, m alertDue) { s.goOn(c, m.asset, s.wanted[m.asset]) }

// goOn asks for what an asset is to get on behalf of those who are left.
func (s *signals) goOn(c engine.Context, asset string, w *wish) {
	if len(w.gone) > 0 {
		w.alerts = slices.DeleteFunc(w.alerts, func(a wanted) bool { return slices.Contains(w.gone, a.Ref) })
	}
	if w.gone, w.busy = nil, false; len(w.alerts) == 0 {
		delete(s.wanted, asset)
	}
	s.alertAll(c)
}

// writeNext appends the changes that wait, as many as there is room for.
func (s *signals) writeNext(c engine.Context) {
	for s.writes < maxWrites && len(s.queue) > 0 {
		w, o := s.queue[0], s.o
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
		s.writes++
		c.Go(func(ctx context.Context) any {
			ctx, cancel := context.WithTimeout(ctx, appendTimeout)
			defer cancel()
			_, err := o.events.Append(ctx, w.change)
			w.ref.Tell(appended{w.change.Signal, err})
			return written{}
		})
	}
}

// onForecastArrived asks for the prices of those that the forecast concerns: with them
// they are re-scored.
func (s *signals) onForecastArrived(m forecastArrived) {
	for ref, k := range s.weather {
		if m == (forecastArrived{k.strategy, k.commodity, k.region}) {
			s.o.market.Quote(k.asset, ref)
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

// onEnded ends the actor of a signal that is closed, or gone.
func (s *signals) onEnded(c engine.Context, m ended) {
	if key := keyOf(m.id); s.children[key].ref == m.ref {
		s.end(c, key, s.children[key])
	}
}

// end ends the actor of a signal.
func (s *signals) end(c engine.Context, key signalKey, child child) {
	c.Stop(child.ref)
	s.stopped[child.ref] = struct{}{}
	s.forget(key, child)
}

// forget forgets an actor that has ended, or is about to.
func (s *signals) forget(key signalKey, child child) {
	delete(s.children, key)
	delete(s.weather, child.ref)
	s.count(child.kind.agent, -1)
	if w := s.wanted[child.kind.asset]; w != nil {
		w.gone = append(w.gone, child.ref)
	}
	s.kinds.release(child.kind)
}

// onTerminated forgets an actor that has ended. The signal of one that has failed too
// often is left alone until another owner takes it over.
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
