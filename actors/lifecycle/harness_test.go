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

// harness fakes everything around the signals of one partition.
type harness struct {
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

func (h *harness) LastEvent(context.Context, int) (signal.Position, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest, nil
}

func (h *harness) OpenSignals(_ context.Context, _ int, f func(signal.Signal, signal.Position) error) error {
	h.mu.Lock()
	h.reads++
	open, reading := slices.Collect(maps.Values(h.open)), h.reading
	h.mu.Unlock()
	if reading != nil {
		<-reading
	}
	for i, s := range open {
		if h.onRead != nil {
			h.onRead(i)
		}
		if err := f(s, signal.Position{}); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return signal.Unavailable(errors.New("down"))
	}
	return nil
}

func (h *harness) OpenSignalsOf(_ context.Context, _ int, ids []signal.SignalID) ([]signal.Signal, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	if h.down {
		return nil, signal.Unavailable(errors.New("down"))
	}
	var list []signal.Signal
	for _, id := range ids {
		if s, ok := h.open[id]; ok {
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
func (h *harness) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	h.mu.Lock()
	h.now++
	h.appends++
	h.maxInFlight = max(h.maxInFlight, h.now)
	waits := []chan struct{}{h.block, h.turns[c.Events[0].Type]}
	h.mu.Unlock()
	for _, wait := range waits {
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now--
	if h.failing != nil {
		return signal.Position{}, h.failing
	}
	if c.Epoch != h.epoch {
		return signal.Position{}, conflict(signal.CodeNotOwner)
	}
	if _, ok := h.open[c.Signal.ID]; !ok {
		return signal.Position{}, conflict("signal_closed")
	}
	if stored := h.open[c.Signal.ID].Sequence; c.Signal.Sequence != stored+1 {
		return signal.Position{}, signal.Changed(stored)
	}
	if !c.Signal.ExitRequested.Equal(h.open[c.Signal.ID].ExitRequested) {
		return signal.Position{}, conflict(signal.CodeExitRequested)
	}
	h.changes = append(h.changes, c)
	if c.Signal.Closing != nil {
		delete(h.open, c.Signal.ID)
	} else {
		h.open[c.Signal.ID] = *c.Signal
	}
	if h.dropAnswers {
		return signal.Position{}, signal.Unavailable(errors.New("no answer"))
	}
	return signal.Position{MS: time.Now().UnixMilli()}, nil
}

func (h *harness) Alert(_ context.Context, asset string, alerts []alerts.Alert) error {
	h.mu.Lock()
	asked := h.asked
	h.mu.Unlock()
	if asked != nil {
		<-asked
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silent {
		return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: "prices are not readable now"}
	}
	if h.unknown {
		return &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows " + asset}
	}
	h.alerts[asset] = append(h.alerts[asset], alerts...)
	return nil
}

func (h *harness) Unalert(_ string, refs ...engine.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undone = append(h.undone, refs...)
}

func (h *harness) RequestPrice(_ string, ref engine.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.priceCalls++
	if h.price != 0 {
		span := alerts.Span{Low: h.price, High: h.price}
		ref.Tell(alerts.LastPrice{Price: h.price, Span: span, Frame: dayBar.Milliseconds(), Left: 1})
	}
}

// dayBar is the duration of a bar of a day at speed 60.
const dayBar = 24 * time.Minute

// lose ends the partitionOwner.
type lose struct{}

// partitionOwner stands for the actor of a partition.
type partitionOwner struct {
	h    *harness
	node *Node
}

func (o *partitionOwner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		o.start(c)
	case lose:
		c.Stop(c.Self())
	case ownership.Lost:
		o.h.mu.Lock()
		o.h.lost = append(o.h.lost, m.Err)
		if o.h.retake && len(o.h.lost) == 1 {
			c.Stop(o.h.follower.parent)
		}
		o.h.mu.Unlock()
	case engine.Terminated: // the signals of the former epoch
		o.h.set(func() { o.h.epoch++ })
		o.start(c)
	}
}

func (o *partitionOwner) start(c engine.Context) {
	o.h.mu.Lock()
	epoch := o.h.epoch
	o.h.mu.Unlock()
	f := o.node.Start(c, ownership.Owned{Partition: 3, Epoch: epoch, Owner: c.Self()}).(*follower)
	o.h.set(func() { o.h.follower = f })
}

// withHarness runs a test in a bubble of synctest with one open signal.
func withHarness(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newHarness(t, openSignal("1"))) })
}

// newHarness starts the signals of a partition with the given open ones. It must be called
// in a synctest bubble.
func newHarness(t *testing.T, open ...signal.Signal) *harness {
	t.Helper()
	return newHarnessWith(t, Options{}, open...)
}

// newHarnessWith is like newHarness, with options.
func newHarnessWith(t *testing.T, o Options, open ...signal.Signal) *harness {
	t.Helper()
	h := unstartedHarness(t, open...)
	h.start(o)
	return h
}

// unstartedHarness is like newHarness, without the start.
func unstartedHarness(t *testing.T, open ...signal.Signal) *harness {
	h := &harness{
		epoch:  7,
		open:   map[signal.SignalID]signal.Signal{},
		alerts: map[string][]alerts.Alert{},
		sys:    engine.NewSystem(engine.Options{}),
	}
	for _, s := range open {
		h.open[s.ID] = s
	}
	t.Cleanup(h.end)
	return h
}

func (h *harness) start(o Options) {
	h.node = New(h, h, h, o)
	produce := func() engine.Actor { return &partitionOwner{h: h, node: h.node} }
	h.owner = h.sys.Spawn(engine.Partition, "3", produce, engine.Supervision{})
	synctest.Wait()
}

// end ends the actors, as a synctest bubble requires.
func (h *harness) end() { h.sys.Shutdown(context.Background()) }

// set calls f under the lock.
func (h *harness) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// send sends m to the actor of the only alert of an asset.
func (h *harness) send(t *testing.T, asset string, m any) {
	t.Helper()
	h.mu.Lock()
	alerts := h.alerts[asset]
	h.mu.Unlock()
	if len(alerts) == 0 {
		t.Fatalf("there is no alert for %s", asset)
	}
	alerts[len(alerts)-1].Ref.Tell(m)
	synctest.Wait()
}

// sendAll sends m to the actors of all alerts of an asset.
func (h *harness) sendAll(asset string, m any) {
	h.mu.Lock()
	alerts := h.alerts[asset]
	h.mu.Unlock()
	for _, a := range alerts {
		a.Ref.Tell(m)
	}
	synctest.Wait()
}

// inFlight returns the number of changes being appended.
func (h *harness) inFlight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// stored returns the changes so far.
func (h *harness) stored() []signal.Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.changes)
}

// types returns the types of the events of all changes.
func (h *harness) types() []signal.EventType {
	h.mu.Lock()
	defer h.mu.Unlock()
	var types []signal.EventType
	for _, c := range h.changes {
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
