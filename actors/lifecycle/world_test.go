package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// world fakes everything around the signals of one partition.
type world struct {
	mu          sync.Mutex
	open        map[signal.SignalID]signal.Signal
	newest      signal.Position // of the event log
	changes     []signal.Change
	alerts      map[string][]alerts.Alert
	undone      []engine.Ref  // of removed alerts
	price       float64       // sent by RequestPrice, unless it is 0
	priceCalls  int           // number of calls of RequestPrice
	failing     error         // of the log
	unknown     bool          // the market knows no asset
	silent      bool          // the market is not available
	down        bool          // reads of the store end with an error
	reads       int           // of the store
	reading     chan struct{} // the search for open signals waits for it, unless it is nil
	onRead      func(i int)   // called before the i-th open signal is read; nil for nothing
	asked       chan struct{} // calls of Alert wait for it, unless it is nil
	dropAnswers bool          // answers of the log are lost
	block       chan struct{} // appends wait for it, unless it is nil
	// turns are like block, for appends of one type of event.
	turns       map[signal.EventType]chan struct{}
	maxInFlight int   // maximum of now
	now         int   // appends in progress
	appends     int   // number of calls of Append
	epoch       int64 // in Redis
	retake      bool  // a lost partition is taken again
	lost        []error

	node     *Node
	follower *follower
	owner    engine.Ref
	sys      *engine.System
}

func (w *world) LastEvent(context.Context, int) (signal.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest, nil
}

func (w *world) OpenSignals(_ context.Context, _ int, f func(signal.Signal, signal.Position) error) error {
	w.mu.Lock()
	w.reads++
	open, reading := slices.Collect(maps.Values(w.open)), w.reading
	w.mu.Unlock()
	if reading != nil {
		<-reading
	}
	for i, s := range open {
		if w.onRead != nil {
			w.onRead(i)
		}
		if err := f(s, signal.Position{}); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return signal.Unavailable(errors.New("down"))
	}
	return nil
}

func (w *world) OpenSignalsOf(_ context.Context, _ int, ids []signal.SignalID) ([]signal.Signal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if w.down {
		return nil, signal.Unavailable(errors.New("down"))
	}
	var list []signal.Signal
	for _, id := range ids {
		if s, ok := w.open[id]; ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// conflict returns an error of Append with a code.
func conflict(code string) error {
	return &signal.Error{Kind: signal.KindConflict, Code: code, Message: code}
}

// Append refuses the same changes as the script of the log.
func (w *world) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	w.mu.Lock()
	w.now++
	w.appends++
	w.maxInFlight = max(w.maxInFlight, w.now)
	waits := []chan struct{}{w.block, w.turns[c.Events[0].Type]}
	w.mu.Unlock()
	for _, wait := range waits {
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now--
	if w.failing != nil {
		return signal.Position{}, w.failing
	}
	if c.Epoch != w.epoch {
		return signal.Position{}, conflict(signal.CodeNotOwner)
	}
	if _, ok := w.open[c.Signal.ID]; !ok {
		return signal.Position{}, conflict("signal_closed")
	}
	if stored := w.open[c.Signal.ID].Sequence; c.Signal.Sequence != stored+1 {
		return signal.Position{}, signal.Changed(stored)
	}
	w.changes = append(w.changes, c)
	if c.Signal.Closing != nil {
		delete(w.open, c.Signal.ID)
	} else {
		w.open[c.Signal.ID] = *c.Signal
	}
	if w.dropAnswers {
		return signal.Position{}, signal.Unavailable(errors.New("no answer"))
	}
	return signal.Position{MS: time.Now().UnixMilli()}, nil
}

func (w *world) Alert(_ context.Context, asset string, alerts []alerts.Alert) error {
	w.mu.Lock()
	asked := w.asked
	w.mu.Unlock()
	if asked != nil {
		<-asked
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: "prices are not readable now"}
	}
	if w.unknown {
		return &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows " + asset}
	}
	w.alerts[asset] = append(w.alerts[asset], alerts...)
	return nil
}

func (w *world) Unalert(_ string, refs ...engine.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undone = append(w.undone, refs...)
}

func (w *world) RequestPrice(_ string, ref engine.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.priceCalls++
	if w.price != 0 {
		span := alerts.Span{Low: w.price, High: w.price}
		ref.Tell(alerts.LastPrice{Price: w.price, Span: span, Frame: dayBar.Milliseconds(), Left: 1})
	}
}

// dayBar is the duration of a bar of a day at speed 60.
const dayBar = 24 * time.Minute

// lose ends the partitionOwner.
type lose struct{}

// partitionOwner stands for the actor of a partition.
type partitionOwner struct {
	w    *world
	node *Node
}

func (o *partitionOwner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		o.start(c)
	case lose:
		c.Stop(c.Self())
	case ownership.Lost:
		o.w.mu.Lock()
		o.w.lost = append(o.w.lost, m.Err)
		if o.w.retake && len(o.w.lost) == 1 {
			c.Stop(o.w.follower.parent)
		}
		o.w.mu.Unlock()
	case engine.Terminated: // the signals of the former epoch
		o.w.set(func() { o.w.epoch++ })
		o.start(c)
	}
}

func (o *partitionOwner) start(c engine.Context) {
	o.w.mu.Lock()
	epoch := o.w.epoch
	o.w.mu.Unlock()
	f := o.node.Start(c, ownership.Owned{Partition: 3, Epoch: epoch, Owner: c.Self()}).(*follower)
	o.w.set(func() { o.w.follower = f })
}

// inWorld runs a test in a bubble of synctest with one open signal.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, openSignal("1"))) })
}

// newWorld starts the signals of a partition with the given open ones. It must be called
// in a synctest bubble.
func newWorld(t *testing.T, open ...signal.Signal) *world {
	t.Helper()
	return newWorldWith(t, Options{}, open...)
}

// newWorldWith is like newWorld, with options.
func newWorldWith(t *testing.T, o Options, open ...signal.Signal) *world {
	t.Helper()
	w := unstartedWorld(t, open...)
	w.start(o)
	return w
}

// unstartedWorld is like newWorld, without the start.
func unstartedWorld(t *testing.T, open ...signal.Signal) *world {
	w := &world{
		epoch:  7,
		open:   map[signal.SignalID]signal.Signal{},
		alerts: map[string][]alerts.Alert{},
		sys:    engine.NewSystem(engine.Options{}),
	}
	for _, s := range open {
		w.open[s.ID] = s
	}
	t.Cleanup(w.end)
	return w
}

func (w *world) start(o Options) {
	w.node = New(w, w, w, o)
	produce := func() engine.Actor { return &partitionOwner{w: w, node: w.node} }
	w.owner = w.sys.Spawn(engine.Partition, "3", produce, engine.Supervision{})
	synctest.Wait()
}

// end ends the actors, as a synctest bubble requires.
func (w *world) end() { w.sys.Shutdown(context.Background()) }

// set calls f under the lock.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// send sends m to the actor of the only alert of an asset.
func (w *world) send(t *testing.T, asset string, m any) {
	t.Helper()
	w.mu.Lock()
	alerts := w.alerts[asset]
	w.mu.Unlock()
	if len(alerts) == 0 {
		t.Fatalf("there is no alert for %s", asset)
	}
	alerts[len(alerts)-1].Ref.Tell(m)
	synctest.Wait()
}

// sendAll sends m to the actors of all alerts of an asset.
func (w *world) sendAll(asset string, m any) {
	w.mu.Lock()
	alerts := w.alerts[asset]
	w.mu.Unlock()
	for _, a := range alerts {
		a.Ref.Tell(m)
	}
	synctest.Wait()
}

// inFlight returns the number of changes being appended.
func (w *world) inFlight() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// stored returns the changes so far.
func (w *world) stored() []signal.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes)
}

// types returns the types of the events of all changes.
func (w *world) types() []signal.EventType {
	w.mu.Lock()
	defer w.mu.Unlock()
	var types []signal.EventType
	for _, c := range w.changes {
		types = append(types, c.Events[0].Type)
	}
	return types
}

// idOf returns an ID that ends with digits.
func idOf(digits string) signal.SignalID { return signal.SignalID(fmt.Sprintf("sig_%026s", digits)) }

// openSignals returns n signals like that of openSignal.
func openSignals(n int) []signal.Signal {
	list := make([]signal.Signal, n)
	for i := range list {
		list[i] = openSignal(strconv.Itoa(i))
	}
	return list
}

// openSignal returns a long signal of BTC: entry 100, stop 90, target 115, created now.
func openSignal(id string) signal.Signal {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return signal.Signal{
		ID:              idOf(id),
		Account:         "acc_1",
		Agent:           "trading",
		Asset:           "BTC",
		Strategy:        "momentum",
		Timeframe:       signal.H1,
		Risk:            signal.MediumRisk,
		Direction:       signal.Long,
		Confidence:      .45,
		FirstConfidence: .45,
		Levels:          &signal.Levels{Entry: 100, Stop: 90, Target: 115},
		CreatedAt:       now,
		UpdatedAt:       now,
		ExpiresAt:       now.Add(24 * time.Minute),
		Sequence:        1,
	}
}

func tickAt(after time.Duration, price float64) marketdata.Tick {
	return marketdata.Tick{Price: price, Time: time.Now().Add(after).UnixMilli()}
}
