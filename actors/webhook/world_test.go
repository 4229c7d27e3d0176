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

// world is a node that owns one partition, with fakes around it, in a bubble of synctest.
type world struct {
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
	w     *world
	ready chan *Recorder
}

func (o owner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		o.ready <- o.w.node.Start(c, ownership.Owned{Epoch: o.w.epoch, Owner: c.Self()}).(*Recorder)
	case ownership.Lost:
		o.w.mu.Lock()
		o.w.lost = append(o.w.lost, m.Err)
		o.w.mu.Unlock()
		c.Stop(c.Self())
	case string:
		c.Stop(c.Self())
	}
}

// inWorld runs a test in a bubble with a world of its own.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	inWorldWith(t, func(*Options) {}, test)
}

// inWorldWith is like inWorld, with options of the node.
func inWorldWith(t *testing.T, change func(o *Options), test func(t *testing.T, w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, change)) })
}

// newWorld makes the fakes. start starts the actors.
func newWorld(t *testing.T, change ...func(o *Options)) *world {
	w := &world{
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
	log := slog.New(slog.NewTextHandler(&w.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := Options{Log: log, Metrics: NewMetrics(w.metrics), Now: w.store.now}
	for _, f := range change {
		f(&o)
	}
	w.node = New(w.store, w.sender, w.keys, o)
	w.system = engine.NewSystem(engine.Options{Log: log, Metrics: engine.NewMetrics(w.actors)})
	w.store.appended = w.wake
	return w
}

// start starts the actors and the feed of events.
func (w *world) start() {
	w.run()
	synctest.Wait()
}

// run is like start, for a test outside of a bubble.
func (w *world) run() {
	ready := make(chan *Recorder, 1)
	produce := func() engine.Actor { return owner{w, ready} }
	w.owner = w.system.Spawn(engine.Partition, "owner", produce, engine.Supervision{})
	w.recorder = <-ready
	ctx, cancel := context.WithCancel(context.Background())
	w.unfollow = cancel
	go func() {
		defer close(w.ended)
		w.follow(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-w.ended
		w.stop()
	})
}

// takeOver ends the owner of the partition and starts another one on a new node with the
// same store. If killed is true, the former one stores nothing more.
func (w *world) takeOver(killed bool, change ...func(o *Options)) *world {
	next := newWorld(w.t, change...)
	next.store, next.sender, next.keys, next.account = w.store, w.sender, w.keys, w.account
	next.node.store, next.node.sender, next.node.keys = w.store, w.sender, w.keys
	next.epoch = w.epoch + 1
	w.store.set(func() {
		if killed {
			w.store.epoch = next.epoch
		}
	})
	w.unfollow()
	<-w.ended
	w.owner.Tell("stop")
	synctest.Wait()
	w.store.set(func() {
		w.store.epoch = next.epoch
		w.store.appended = next.wake
	})
	next.start()
	return next
}

// wake notifies follow of new events in the log.
func (w *world) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *world) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.system.Shutdown(ctx); err != nil {
		w.t.Errorf("Shutdown: %v", err)
	}
	if n := w.node.limiter.inFlight(); n != 0 {
		w.t.Errorf("%d slots of the limiter are not released", n)
	}
	if n := w.node.liveLeft.Load(); n != maxLiveNode {
		w.t.Errorf("%d more deliveries fit into the live queues, want %d", n, maxLiveNode)
	}
}

// follow records the events of the log, like the partition's feed.
func (w *world) follow(ctx context.Context) {
	done := 0
	w.store.set(func() {
		for done < len(w.store.log) && w.store.log[done].Position.Compare(w.store.position) <= 0 {
			done++
		}
	})
	for {
		w.store.mu.Lock()
		events := slices.Clone(w.store.log[done:])
		w.store.mu.Unlock()
		if len(events) == 0 {
			select {
			case <-w.woken:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := w.recorder.Record(ctx, events); err == nil {
			done += len(events)
			w.store.set(func() { w.store.position = w.recorder.Stored(w.store.log[done-1].Position) })
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
func (w *world) end() signal.Position {
	return peek(w.store, func() signal.Position { return w.store.log[len(w.store.log)-1].Position })
}

// stored returns the position up to which the deliveries of the log's events are stored.
func (w *world) stored() signal.Position { return w.recorder.Stored(w.end()) }

// register adds a webhook subscribed to signal.created.
func (w *world) register(change ...func(hook *delivery.Webhook)) signal.WebhookID {
	w.t.Helper()
	id := signal.NewWebhookID()
	hook := delivery.Webhook{
		ID:         id,
		Account:    w.account,
		URL:        w.url(id),
		Events:     []signal.EventType{signal.SignalCreated},
		APIVersion: "2026-11-01",
		Status:     delivery.WebhookEnabled,
		CreatedAt:  time.Now(),
		UpdatedAt:  time.Now(),
		Secret:     w.keys.Seal([]byte("secret"), string(id)),
	}
	for _, f := range change {
		f(&hook)
	}
	w.store.set(func() { w.store.save(hook) })
	return id
}

// allEvents subscribes a webhook to the life of signals and to runs, onlyClosed to closings.
func allEvents(h *delivery.Webhook) {
	h.Events = []signal.EventType{signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed, signal.AgentStarted}
}

func onlyClosed(h *delivery.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} }

// serve registers a webhook whose endpoint gives an answer, and starts the actors.
func (w *world) serve(a answer, change ...func(hook *delivery.Webhook)) signal.WebhookID {
	w.t.Helper()
	id := w.register(change...)
	w.sender.script(a)
	w.start()
	return id
}

// url returns the URL of a webhook.
func (w *world) url(id signal.WebhookID) string { return "https://example.com/" + string(id) }

// append appends events at once, each of the world's account unless it has one.
func (w *world) append(events ...signal.Event) (ids []signal.EventID) {
	w.store.set(func() {
		for _, e := range events {
			e.ID, e.Account = signal.NewEventID(), cmp.Or(e.Account, w.account)
			w.store.append(e)
			ids = append(ids, e.ID)
		}
	})
	return ids
}

// emit appends n events signal.created at once and returns them, oldest first.
func (w *world) emit(n int) []signal.EventID {
	return w.append(slices.Repeat([]signal.Event{{Type: signal.SignalCreated, Data: []byte(`{"n":1}`)}}, n)...)
}

// emitAs appends an event signal.created of an account.
func (w *world) emitAs(account signal.AccountID) {
	w.append(signal.Event{Account: account, Type: signal.SignalCreated, Data: []byte(`{"n":1}`)})
}

// emitOf appends an event of a signal.
func (w *world) emitOf(s signal.SignalID, t signal.EventType) signal.EventID {
	return w.append(signal.Event{Type: t, Data: []byte(`{"signal_id":"` + s + `","n":1}`)})[0]
}

// pass lets time pass, and waits for everything that happens until then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// jump sets the clock of Redis forward. The next scan finds deliveries due by then.
func (w *world) jump(d time.Duration) { w.store.ahead.Add(int64(d)) }

// pendingDelivery returns a delivery of a new event that is due at a time.
func (w *world) pendingDelivery(id signal.WebhookID, at time.Time) delivery.Delivery {
	e := signal.NewEventID()
	return delivery.Delivery{
		ID:            signal.DeliveryIDOf(e, id),
		Webhook:       id,
		Account:       w.account,
		Event:         e,
		Type:          signal.SignalCreated,
		Status:        delivery.Pending,
		CreatedAt:     at,
		NextAttemptAt: at,
	}
}

// backlogged puts n pending deliveries of a webhook into the store, due one second apart
// and overdue, and returns their ids, oldest first.
func (w *world) backlogged(id signal.WebhookID, n int) (ids []signal.DeliveryID) {
	w.store.set(func() {
		for i := range n {
			at := time.Now().Truncate(time.Millisecond).Add(-time.Duration(n-i) * time.Second)
			d := w.pendingDelivery(id, at)
			w.store.deliveries[d.ID] = &delivery.PendingDelivery{Delivery: d, Body: fmt.Appendf(nil, "backlog %d", i)}
			ids = append(ids, d.ID)
		}
	})
	return ids
}

// once checks that each of the events went to a webhook exactly once.
func (w *world) once(id signal.WebhookID, events []signal.EventID) {
	w.t.Helper()
	n := map[signal.EventID]int{}
	for _, s := range w.sender.sent(w.url(id)) {
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
		w.t.Errorf("of %d events %d are lost and %d sent more than once", len(events), lost, twice)
	}
}

// statuses checks the deliveries of a webhook by status and error.
func (w *world) statuses(id signal.WebhookID, want map[string]int) {
	w.t.Helper()
	if got := w.store.statuses(id); !maps.Equal(got, want) {
		w.t.Errorf("deliveries: %v, want %v", got, want)
	}
}

// attempts checks the number of attempts so far, to all webhooks or to one, and returns them.
func (w *world) attempts(want int, id ...signal.WebhookID) []sent {
	w.t.Helper()
	urls := make([]string, len(id))
	for i := range id {
		urls[i] = w.url(id[i])
	}
	all := w.sender.sent(urls...)
	if len(all) != want {
		w.t.Fatalf("%d attempts, want %d", len(all), want)
	}
	return all
}

// peak checks the maximum of concurrent attempts to a webhook since the last call.
func (w *world) peak(id signal.WebhookID, want int) {
	w.t.Helper()
	if n := w.sender.peak(w.url(id)); n != want {
		w.t.Errorf("%d requests at once, want %d", n, want)
	}
}

// calls checks how often an operation of the store was called.
func (w *world) calls(op string, want int) {
	w.t.Helper()
	if n := w.store.count(op); n != want {
		w.t.Errorf("%d calls of %s, want %d", n, op, want)
	}
}

// pruned checks in how many steps the deliveries of a webhook were pruned.
func (w *world) pruned(id signal.WebhookID, want int) {
	w.t.Helper()
	if n := peek(w.store, func() int { return w.store.pruned[id] }); n != want {
		w.t.Errorf("pruned in %d steps, want %d", n, want)
	}
}

// losses checks how often the owner was notified that it has lost the partition.
func (w *world) losses(want int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lost) != want {
		w.t.Errorf("the owner was notified %d times of a loss, want %d", len(w.lost), want)
	}
}

// gathered returns the values of a counter or gauge by the value of its label, "" without one.
func (w *world) gathered(r *prometheus.Registry, name string) map[string]float64 {
	w.t.Helper()
	families, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
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
func (w *world) counted(name string) map[string]float64 {
	got := w.gathered(w.metrics, name)
	maps.DeleteFunc(got, func(_ string, v float64) bool { return v == 0 })
	return got
}
