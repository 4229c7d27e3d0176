package dashboard

import (
	"context"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// redisLog is the event log of a real Redis, connected to the hub as in the process.
type redisLog struct {
	*eventlog.Store
	tail *eventlog.Tail
}

func (l redisLog) Wait(ctx context.Context, partition int, p signal.Position) error {
	return l.tail.Wait(ctx, partition, p)
}

// TestResumeAcrossARestart checks that a second node, which has only the data in Redis,
// fills the gap of a client of the first.
func TestResumeAcrossARestart(t *testing.T) {
	t.Parallel()
	store, err := persistence.Open(persistence.Options{URL: redistest.New(t).URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Client.Close() })
	log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
	t.Cleanup(func() {
		if err := log.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	record := func() signal.Position {
		t.Helper()
		e := signal.Event{Account: alice, ID: signal.NewEventID(),
			Type: signal.SystemNotification, Data: []byte(`{"message":"m","severity":"info"}`)}
		p, err := log.Append(t.Context(), signal.Change{Account: alice, Events: []signal.Event{e}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	node := func() *service {
		tail := eventlog.NewTail(store.Logs, eventlog.TailOptions{})
		s := newService(t, func(o *Options) {
			o.PartitionOf, o.Log, o.Now = store.Client.Partition, redisLog{store.Logs, tail}, store.Client.Now
			o.Follower = tail.For(eventlog.Streams)
		})
		tail.Subscribe(s.hub.Publish)
		tail.OnGap(s.hub.Gap)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			tail.Run(ctx)
			close(done)
		}()
		t.Cleanup(func() {
			cancel()
			<-done
		})
		until(t, "the tail is attached", tail.Attached)
		return s
	}

	c := node().welcomed(principalOf(alice))
	seen := record()
	c.wantEvents("system.notification", seen)
	c.ws.Close()
	var missed []signal.Position
	for range 5 {
		p := record()
		missed = append(missed, p)
		until(t, "the next position differs in the milliseconds", func() bool { return time.Now().UnixMilli() > p.MS })
	}

	c = node().welcomed(principalOf(alice))
	c.subscribe(after1(seen), `{"replayed":5,"complete":true}`, missed...)
	live := record()
	c.wantEvents("system.notification", live)
	c.subscribe(after1(seen), `{"replayed":0,"complete":true}`)
	c.subscribe(after1(live.Plus(1)), `{"replayed":0,"complete":false}`)
}
