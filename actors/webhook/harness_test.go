package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// harness is a node that owns one partition, with fakes around it, in a bubble of synctest.
type harness struct {
	t       *testing.T
	store   *fakeStore
	sender  *fakeSender
	keys    *keyring.Ring
	node    *Node
	system  *engine.System
	metrics *prometheus.Registry
	actors  *prometheus.Registry // metrics of the engine
	account signal.AccountID
	lines   lines

	epoch    int64 // of the owner
	owner    engine.Ref
	recorder *Recorder
	read     int // events of the log that the test has read
	woken    chan struct{}
	ended    chan struct{}
	unfollow context.CancelFunc
	mu       sync.Mutex
	lost     []error
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// ringOf returns a ring with a key for each name, the newest first.
func ringOf(tb testing.TB, names ...string) *keyring.Ring {
	tb.Helper()
	keys := make([]credential.NamedKey, len(names))
	for i, name := range names {
		keys[i] = credential.NamedKey{Name: name, Value: sha256.Sum256([]byte(name))}
	}
	r, err := keyring.New(keys)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// localSender returns a sender that may reach this machine.
func localSender(tb testing.TB, o sender.Options) *sender.Sender {
	tb.Helper()
	o.Guard = guard.New(guard.Options{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	s := sender.New(o)
	tb.Cleanup(s.Close)
	return s
}

// localServer starts a server of this machine.
func localServer(tb testing.TB, h http.HandlerFunc) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	return server
}

// owner stands for the partition's actor.
type owner struct {
	h     *harness
	ready chan *Recorder
}

func (o owner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		o.ready <- o.h.node.Start(c, ownership.Owned{Epoch: o.h.epoch, Owner: c.Self()}).(*Recorder)
	case ownership.Lost:
		o.h.mu.Lock()
		o.h.lost = append(o.h.lost, m.Err)
		o.h.mu.Unlock()
		c.Stop(c.Self())
	case string:
		c.Stop(c.Self())
	}
}

// withHarness runs a test in a bubble with a harness of its own.
func withHarness(t *testing.T, test func(t *testing.T, h *harness)) {
	withHarnessOptions(t, func(*Options) {}, test)
}

// withHarnessOptions is like withHarness, with options of the node.
func withHarnessOptions(t *testing.T, change func(o *Options), test func(t *testing.T, h *harness)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newHarness(t, change)) })
}

// newHarness makes the fakes. start starts the actors.
func newHarness(t *testing.T, change ...func(o *Options)) *harness {
	h := &harness{
		t:       t,
		epoch:   1,
		store:   newFakeStore(),
		sender:  &fakeSender{},
		keys:    ringOf(t, "2026"),
		account: signal.NewAccountID(),
		metrics: prometheus.NewRegistry(),
		actors:  prometheus.NewRegistry(),
		woken:   make(chan struct{}, 1),
		ended:   make(chan struct{}),
	}
	log := slog.New(slog.NewTextHandler(&h.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := Options{Log: log, Metrics: NewMetrics(h.metrics), Now: h.store.now}
	for _, f := range change {
		f(&o)
	}
	h.node = New(h.store, h.sender, h.keys, o)
	h.system = engine.NewSystem(engine.Options{Log: log, Metrics: engine.NewMetrics(h.actors)})
	h.store.appended = h.wake
	return h
}

// start starts the actors and the feed of events.
func (h *harness) start() {
	h.run()
	synctest.Wait()
}

// run is like start, for a test outside of a bubble.
func (h *harness) run() {
	ready := make(chan *Recorder, 1)
	produce := func() engine.Actor { return owner{h, ready} }
	h.owner = h.system.Spawn(engine.Partition, "owner", produce, engine.Supervision{})
	h.recorder = <-ready
	ctx, cancel := context.WithCancel(context.Background())
	h.unfollow = cancel
	go func() {
		defer close(h.ended)
		h.follow(ctx)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-h.ended
		h.stop()
	})
}

// takeOver ends the owner of the partition and starts another one on a new node with the
// same store. If killed is true, the former one stores nothing more.
func (h *harness) takeOver(killed bool, change ...func(o *Options)) *harness {
	next := newHarness(h.t, change...)
	next.store, next.sender, next.keys, next.account = h.store, h.sender, h.keys, h.account
	next.node.store, next.node.sender, next.node.keys = h.store, h.sender, h.keys
	next.epoch = h.epoch + 1
	h.store.set(func() {
		if killed {
			h.store.epoch = next.epoch
		}
	})
	h.unfollow()
	<-h.ended
	h.owner.Tell("stop")
	synctest.Wait()
	h.store.set(func() {
		h.store.epoch = next.epoch
		h.store.appended = next.wake
	})
	next.start()
	return next
}

// wake notifies follow of new events in the log.
func (h *harness) wake() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

func (h *harness) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.system.Shutdown(ctx); err != nil {
		h.t.Errorf("Shutdown: %v", err)
	}
	if n := h.node.limiter.inFlight(); n != 0 {
		h.t.Errorf("%d slots of the limiter are not released", n)
	}
	if n := h.node.liveLeft.Load(); n != maxLiveNode {
		h.t.Errorf("%d more deliveries fit into the live queues, want %d", n, maxLiveNode)
	}
}

// follow records the events of the log, like the partition's feed.
func (h *harness) follow(ctx context.Context) {
	done := 0
	h.store.set(func() {
		for done < len(h.store.log) && h.store.log[done].Position.Compare(h.store.position) <= 0 {
			done++
		}
	})
	for {
		h.store.mu.Lock()
		events := slices.Clone(h.store.log[done:])
		h.store.mu.Unlock()
		if len(events) == 0 {
			select {
			case <-h.woken:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := h.recorder.Record(ctx, events); err == nil {
			done += len(events)
			h.store.set(func() { h.store.position = h.recorder.Stored(h.store.log[done-1].Position) })
			continue
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// end returns the position of the last event of the log.
func (h *harness) end() signal.Position {
	return peek(h.store, func() signal.Position { return h.store.log[len(h.store.log)-1].Position })
}

// stored returns the position up to which the deliveries of the log's events are stored.
func (h *harness) stored() signal.Position { return h.recorder.Stored(h.end()) }

// register adds a webhook subscribed to signal.created.
func (h *harness) register(change ...func(hook *delivery.Webhook)) signal.WebhookID {
	h.t.Helper()
	id := signal.NewWebhookID()
	hook := delivery.Webhook{
		ID:         id,
		Account:    h.account,
		URL:        h.url(id),
		Events:     []signal.EventType{signal.SignalCreated},
		APIVersion: "2026-11-01",
		Status:     delivery.WebhookEnabled,
		CreatedAt:  time.Now(),
		UpdatedAt:  time.Now(),
		Secret:     h.keys.Seal([]byte("secret"), string(id)),
	}
	for _, f := range change {
		f(&hook)
	}
	h.store.set(func() { h.store.save(hook) })
	return id
}

// allEvents subscribes a webhook to the life of signals and to runs, onlyClosed to closings.
func allEvents(hook *delivery.Webhook) {
	hook.Events = []signal.EventType{signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed, signal.AgentStarted}
}

func onlyClosed(hook *delivery.Webhook) { hook.Events = []signal.EventType{signal.SignalClosed} }

// serve registers a webhook whose endpoint gives an answer, and starts the actors.
func (h *harness) serve(a answer, change ...func(hook *delivery.Webhook)) signal.WebhookID {
	h.t.Helper()
	id := h.register(change...)
	h.sender.script(a)
	h.start()
	return id
}

// url returns the URL of a webhook.
func (h *harness) url(id signal.WebhookID) string { return "https://example.com/" + string(id) }

// append appends events at once, each of the account of h unless it has one.
func (h *harness) append(events ...signal.Event) (ids []signal.EventID) {
	h.store.set(func() {
		for _, e := range events {
			e.ID, e.Account = signal.NewEventID(), cmp.Or(e.Account, h.account)
			h.store.append(e)
			ids = append(ids, e.ID)
		}
	})
	return ids
}

// emit appends n events signal.created at once and returns them, oldest first.
func (h *harness) emit(n int) []signal.EventID {
	return h.append(slices.Repeat([]signal.Event{{Type: signal.SignalCreated, Data: []byte(`{"n":1}`)}}, n)...)
}

// emitAs appends an event signal.created of an account.
func (h *harness) emitAs(account signal.AccountID) {
	h.append(signal.Event{Account: account, Type: signal.SignalCreated, Data: []byte(`{"n":1}`)})
}

// emitOf appends an event of a signal.
func (h *harness) emitOf(s signal.SignalID, t signal.EventType) signal.EventID {
	return h.append(signal.Event{Type: t, Data: []byte(`{"signal_id":"` + s + `","n":1}`)})[0]
}

// pass lets time pass, and waits for everything that happens until then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// jump sets the clock of Redis forward. The next scan finds deliveries due by then.
func (h *harness) jump(d time.Duration) { h.store.ahead.Add(int64(d)) }

// pendingDelivery returns a delivery of a new event that is due at a time.
func (h *harness) pendingDelivery(id signal.WebhookID, at time.Time) delivery.Delivery {
	e := signal.NewEventID()
	return delivery.Delivery{
		ID:            signal.DeliveryIDOf(e, id),
		Webhook:       id,
		Account:       h.account,
		Event:         e,
		Type:          signal.SignalCreated,
		Status:        delivery.Pending,
		CreatedAt:     at,
		NextAttemptAt: at,
	}
}

// backlogged puts n pending deliveries of a webhook into the store, due one second apart
// and overdue, and returns their ids, oldest first.
func (h *harness) backlogged(id signal.WebhookID, n int) (ids []signal.DeliveryID) {
	h.store.set(func() {
		for i := range n {
			at := time.Now().Truncate(time.Millisecond).Add(-time.Duration(n-i) * time.Second)
			d := h.pendingDelivery(id, at)
			h.store.deliveries[d.ID] = &delivery.PendingDelivery{Delivery: d, Body: fmt.Appendf(nil, "backlog %d", i)}
			ids = append(ids, d.ID)
		}
	})
	return ids
}

// once checks that each of the events went to a webhook exactly once.
func (h *harness) once(id signal.WebhookID, events []signal.EventID) {
	h.t.Helper()
	n := map[signal.EventID]int{}
	for _, s := range h.sender.sent(h.url(id)) {
		n[s.Event]++
	}
	lost, twice := 0, 0
	for _, e := range events {
		if n[e] == 0 {
			lost++
		} else if n[e] > 1 {
			twice++
		}
	}
	if lost+twice > 0 {
		h.t.Errorf("of %d events %d are lost and %d sent more than once", len(events), lost, twice)
	}
}

// statuses checks the deliveries of a webhook by status and error.
func (h *harness) statuses(id signal.WebhookID, want map[string]int) {
	h.t.Helper()
	if got := h.store.statuses(id); !maps.Equal(got, want) {
		h.t.Errorf("deliveries: %v, want %v", got, want)
	}
}

// attempts checks the number of attempts so far, to all webhooks or to one, and returns them.
func (h *harness) attempts(want int, id ...signal.WebhookID) []sent {
	h.t.Helper()
	urls := make([]string, len(id))
	for i := range id {
		urls[i] = h.url(id[i])
	}
	all := h.sender.sent(urls...)
	if len(all) != want {
		h.t.Fatalf("%d attempts, want %d", len(all), want)
	}
	return all
}

// peak checks the maximum of concurrent attempts to a webhook since the last call.
func (h *harness) peak(id signal.WebhookID, want int) {
	h.t.Helper()
	if n := h.sender.peak(h.url(id)); n != want {
		h.t.Errorf("%d requests at once, want %d", n, want)
	}
}

// calls checks how often an operation of the store was called.
func (h *harness) calls(op string, want int) {
	h.t.Helper()
	if n := h.store.count(op); n != want {
		h.t.Errorf("%d calls of %s, want %d", n, op, want)
	}
}

// pruned checks in how many steps the deliveries of a webhook were pruned.
func (h *harness) pruned(id signal.WebhookID, want int) {
	h.t.Helper()
	if n := peek(h.store, func() int { return h.store.pruned[id] }); n != want {
		h.t.Errorf("pruned in %d steps, want %d", n, want)
	}
}

// losses checks how often the owner was notified that it has lost the partition.
func (h *harness) losses(want int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lost) != want {
		h.t.Errorf("the owner was notified %d times of a loss, want %d", len(h.lost), want)
	}
}

// gathered returns the values of a counter or gauge by the value of its label, "" without one.
func (h *harness) gathered(r *prometheus.Registry, name string) map[string]float64 {
	h.t.Helper()
	families, err := r.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			label := ""
			if len(m.GetLabel()) > 0 {
				label = m.GetLabel()[0].GetValue()
			}
			got[label] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

// counted returns the values of a counter that are not zero.
func (h *harness) counted(name string) map[string]float64 {
	got := h.gathered(h.metrics, name)
	maps.DeleteFunc(got, func(_ string, v float64) bool { return v == 0 })
	return got
}
