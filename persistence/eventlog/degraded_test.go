package eventlog

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// patient is a timeout that a busy machine keeps. Half of it passes before replicas are missing.
const patient = 4 * time.Second

// newReplicatedBench starts a master with a replica, and a log and a tail that wait for it.
func newReplicatedBench(t *testing.T, accept bool) (b *tailBench, replica *redistest.Server) {
	t.Helper()
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	return newTailBenchOn(t, master, redisclient.Options{WaitReplicas: 1, Timeout: patient,
		AcceptWithoutReplicas: accept, Metrics: redisclient.NewMetrics(prometheus.NewRegistry())}), replica
}

// stall pauses the replica once it has everything.
func (b *tailBench) stall(replica *redistest.Server) {
	b.Helper()
	replica.InStep(b.server)
	replica.Pause()
	b.Cleanup(replica.Continue)
}

// The first write that meets the loss of the replicas may be stored. Later ones are not.
func TestNothingIsWrittenWhileReplicasAreMissing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	b, replica := newReplicatedBench(t, false)
	account := accountIn(b.store, 0)
	b.append(noted(account, "before"))
	b.stall(replica)
	if _, err := b.log.Append(t.Context(), noted(account, "first")); !errors.Is(err, redisclient.ErrReplicas) {
		t.Fatalf("the first write without replicas: %v", err)
	}
	for i := range 20 {
		_, err := b.log.Append(t.Context(), noted(account, strconv.Itoa(i)))
		if reason, _ := redisclient.Refusal(err); !errors.Is(err, redisclient.ErrNotWritten) ||
			reason != redisclient.ReplicasMissing || signal.KindOf(err) != signal.KindUnavailable {
			t.Fatalf("write %d without replicas: %v, reason %q", i, err, reason)
		}
	}
	if n := b.rdb.XLen(t.Context(), b.store.EventsKey(0)).Val(); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	if v := gauge(b, "agentsignal_redis_degraded"); v != 1 {
		t.Errorf("the gauge is %v while replicas are missing", v)
	}
	replica.Continue()
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "again"))
		return err == nil
	})
	if v := gauge(b, "agentsignal_redis_degraded"); v != 0 {
		t.Errorf("the gauge is %v after replicas are back", v)
	}
}

// A writer that could not reach Redis, and whose next attempt is refused because replicas are missing,
// writes again when these are back.
func TestWritesGoOnAfterAnOutageAndMissingReplicas(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	b, replica := newReplicatedBench(t, false)
	account, confirm := accountIn(b.store, 0), b.store.ConfirmKey(0)
	b.append(noted(account, "before"))
	b.stall(replica)
	b.server.Pause()
	if _, err := b.log.Append(t.Context(), noted(account, "unreachable")); err == nil {
		t.Fatal("a change is stored by a paused server")
	}
	b.server.Continue()
	// Another part of the process is the first to notice that replicas are missing.
	if err := b.store.Client.Replicas.Unconfirmed(confirm, redisclient.ErrReplicas); err == nil {
		t.Fatal("a change without replicas is accepted")
	}
	eventually(t, func() bool { // the writer tries again
		_, err := b.log.Append(t.Context(), noted(account, "refused"))
		return errors.Is(err, redisclient.ErrNotWritten)
	})
	replica.Continue()
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "again"))
		return err == nil
	})
}

// gauge returns the value of a metric of the store without labels.
func gauge(b *tailBench, name string) float64 {
	b.Helper()
	families, err := b.store.Metrics.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	b.Fatalf("there is no metric %s", name)
	return 0
}

// With AcceptWithoutReplicas each change is acknowledged, and counted, until replicas are back.
func TestChangesAreAcceptedWithoutReplicas(t *testing.T) {
	t.Parallel()
	b, replica := newReplicatedBench(t, true)
	b.run()
	account := accountIn(b.store, 0)
	b.append(noted(account, "before"))
	if v := gauge(b, "agentsignal_redis_unconfirmed_total"); v != 0 {
		t.Errorf("%v changes are counted while replicas are there", v)
	}
	b.stall(replica)
	for i := range 20 {
		b.append(noted(account, strconv.Itoa(i)))
	}
	if v := gauge(b, "agentsignal_redis_unconfirmed_total"); v != 20 {
		t.Errorf("%v changes are counted, want 20", v)
	}
	if !b.store.Replicas.Missing() {
		t.Error("the store is not degraded while replicas are missing")
	}
	if err := b.store.Readiness.Check(t.Context()); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	eventually(t, func() bool { return len(b.texts(0)) == 21 }) // the tail goes on
	replica.Continue()
	eventually(t, func() bool { return !b.store.Replicas.Missing() })
	counted := gauge(b, "agentsignal_redis_unconfirmed_total")
	b.append(noted(account, "after"))
	if v := gauge(b, "agentsignal_redis_unconfirmed_total"); v != counted {
		t.Error("a change is counted after replicas are back")
	}
}

// The tail hands on what replicas have, and nothing else.
func TestTailWithholdsWhatReplicasLack(t *testing.T) {
	t.Parallel()
	b, replica := newReplicatedBench(t, false)
	b.run()
	account := accountIn(b.store, 0)
	at := b.append(noted(account, "before"))
	eventually(t, func() bool { return len(b.texts(0)) == 1 })
	b.stall(replica)
	plain := openLog(t, openStore(t, redisclient.Options{URL: b.server.URL(), Partitions: 4}), LogOptions{})
	withheld, err := plain.Append(t.Context(), noted(account, "withheld")) // by a node that is not yet there
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, b.store.Replicas.Missing)
	// Who reads the log itself does not get the event either.
	if events, err := b.store.ReadLog(t.Context(), 0, signal.Position{}, 10); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("the log is read: %d events, %v", len(events), err)
	}
	// What waits for the end of the log gets what is confirmed.
	eventually(t, func() bool {
		head, err := b.tail.Head(t.Context(), 0)
		return err == nil && head == at
	})
	for _, p := range []signal.Position{at, withheld} {
		if err := b.tail.Wait(t.Context(), 0, p); err != nil {
			t.Errorf("a wait for %v: %v", p, err)
		}
	}
	if got := b.texts(0); !slices.Equal(got, []string{"before"}) {
		t.Fatalf("the tail has handed on %q while the replica stalls", got)
	}
	replica.Continue()
	eventually(t, func() bool { return slices.Equal(b.texts(0), []string{"before", "withheld"}) })
	if head, err := b.tail.Head(t.Context(), 0); err != nil || head != withheld {
		t.Errorf("the end of the log is %v, %v; want %v", head, err, withheld)
	}
}

// A caller that waits for an event which is then withheld is not held up by it.
func TestWaitEndsWhereEventsAreWithheld(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	b, replica := newReplicatedBench(t, false)
	b.run()
	account := accountIn(b.store, 0)
	b.append(noted(account, "before"))
	b.stall(replica)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- b.tail.Wait(ctx, 0, signal.Position{MS: time.Now().Add(time.Hour).UnixMilli()}) }()
	eventually(t, func() bool { return b.tail.partitions[0].follow.awaited() })
	if _, err := b.log.Append(t.Context(), noted(account, "withheld")); err == nil {
		t.Fatal("the change is acknowledged")
	}
	if err := <-waited; err != nil {
		t.Errorf("the wait ends with %v", err)
	}
}

// An event that a failover loses has reached no subscriber.
func TestLostEventsReachNoSubscriber(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	proxy := redistest.NewProxy(t, master)
	b := newTailBenchOn(t, master, redisclient.Options{URL: proxy.URL(), WaitReplicas: 1, Timeout: patient})
	b.run()
	account := accountIn(b.store, 0)
	b.append(noted(account, "before"))
	replica.InStep(master)
	replica.Detach() // a stalled one would get the event after all
	if _, err := b.log.Append(t.Context(), noted(account, "lost")); err == nil {
		t.Fatal("the change is acknowledged")
	}
	eventually(t, b.store.Replicas.Missing)
	proxy.Switch(nil)
	master.Kill()
	replica.Promote()
	second := redistest.New(t)
	second.Follow(replica)
	proxy.Switch(replica)
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "after"))
		return err == nil
	})
	eventually(t, func() bool { return slices.Contains(b.texts(0), "after") })
	if got := b.texts(0); slices.Contains(got, "lost") || !slices.Contains(got, "before") {
		t.Errorf("the tail has handed on %q", got)
	}
}

// The answer of the writer saves the tail a wait: it knows that replicas have the events.
func TestConfirmedEventsAreHandedOnWithoutAWait(t *testing.T) {
	t.Parallel()
	b, replica := newReplicatedBench(t, false)
	b.attach()
	b.append(noted(accountIn(b.store, 0), "confirmed"))
	b.stall(replica)
	b.read()
	if got := b.texts(0); len(got) != 1 || b.store.Replicas.Missing() {
		t.Errorf("the tail has handed on %q, degraded %t", got, b.store.Replicas.Missing())
	}
}

// An event that was removed after it was read, with its account, does not stop the tail.
func TestTailPassesEventsRemovedBeforeReplicasHadThem(t *testing.T) {
	t.Parallel()
	b, _ := newReplicatedBench(t, false)
	b.attach()
	account := accountIn(b.store, 0)
	b.append(noted(account, "stays"))
	at := b.append(noted(account, "removed"))
	b.store.confirmed[0].reset()
	reply := map[int][]redisclient.Entry{}
	entries, err := b.store.ReadRange(t.Context(), b.store.EventsKey(0), "-", "+", 10)
	if err != nil {
		t.Fatal(err)
	}
	reply[0] = entries
	b.rdb.XDel(t.Context(), b.store.EventsKey(0), at.String())
	if missing, err := b.tail.readers[0].confirm(t.Context(), reply); missing || err != nil || len(reply[0]) != 0 {
		t.Errorf("missing %t, %v, %d events are handed on", missing, err, len(reply[0]))
	}
	b.read()
	b.read()
	if got := b.texts(0); !slices.Equal(got, []string{"stays"}) {
		t.Errorf("the tail has handed on %q", got)
	}
}
