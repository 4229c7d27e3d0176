package persistence

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// failover is a load of events and what is known of each, by its text.
type failover struct {
	*testing.T
	store *Store
	log   *eventlog.Log

	mu           sync.Mutex
	acknowledged map[string]bool
	seen         map[string]int // by the tail
}

// TestFailoverLosesNothingAcknowledged kills a master under load. What was acknowledged, and what
// the tail has handed on, is in the log of its successor, and writes go on by themselves.
// The replicas here are too quick to lack anything: for that see TestAFailoverToALaggingReplica.
func TestFailoverLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		w := redistest.NewWatched(t, 2)
		loseMaster(t, w.URL(), w.Master.Kill)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t, 3)
		c.AddReplicas(0, 1, 1, 2) // of the two, one takes its master's place and the other confirms
		loseMaster(t, c.URL(), func() { c.Kill(1) })
	})
}

// loseMaster appends events to all partitions before and after a master is killed.
func loseMaster(t *testing.T, url string, kill func()) {
	const writers, events = 16, 40 // events of each writer before, and after
	f := &failover{T: t, acknowledged: map[string]bool{}, seen: map[string]int{}}
	f.store = openStore(t, Options{URL: url, Partitions: writers, WaitReplicas: 1})
	f.log = openLog(t, f.store, eventlog.LogOptions{})
	stop := f.follow()
	var before, after, load sync.WaitGroup
	var killed atomic.Bool
	before.Add(writers)
	after.Add(writers)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for p := range writers {
		load.Go(func() {
			account := storetest.AccountIn(f.store.Client, p)
			f.write(ctx, account, 0, events, func() bool { return true })
			before.Done()
			f.write(ctx, account, 1, events, killed.Load)
			after.Done()
		})
	}
	before.Wait()
	kill()
	killed.Store(true)
	began := time.Now()
	after.Wait()
	load.Wait()
	t.Logf("all partitions took %d changes within %s of the end of their master", events, time.Since(began))
	f.check(stop)
}

// write appends events until n were acknowledged while counts returned true.
func (f *failover) write(ctx context.Context, account signal.AccountID, round, n int, counts func() bool) {
	for i := 0; n > 0; i++ {
		text := fmt.Sprintf("%s %d %d", account, round, i)
		c := counts()
		switch _, err := f.log.Append(ctx, storetest.Noted(account, text)); {
		case err == nil:
			f.mu.Lock()
			f.acknowledged[text] = true
			f.mu.Unlock()
			if c {
				n--
			}
		case ctx.Err() != nil:
			f.Errorf("%s: writes have not gone on: %v", account, err)
			return
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// follow starts a tail, which stop ends.
func (f *failover) follow() (stop func()) {
	tail := eventlog.NewTail(f.store.Logs, eventlog.TailOptions{})
	tail.Subscribe(func(_ int, events []signal.Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range events {
			f.seen[string(e.Data)]++
		}
	})
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() { tail.Run(ctx); close(ended) }()
	followAll(f, tail, f.store.Client.Partitions())
	return func() { cancel(); <-ended }
}

// check compares what was acknowledged and handed on with the log.
func (f *failover) check(stop func()) {
	redistest.Eventually(f, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for text := range f.acknowledged {
			if f.seen[text] == 0 {
				return false
			}
		}
		return true
	})
	stop()
	stored := map[string]int{}
	for p := range f.store.Client.Partitions() {
		events, err := f.store.Logs.ReadLog(f.Context(), p, signal.Position{}, 1_000_000)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range events {
			stored[string(e.Data)]++
		}
	}
	for text := range f.acknowledged {
		if stored[text] != 1 {
			f.Errorf("%s was acknowledged and is stored %d times", text, stored[text])
		}
	}
	for text, n := range stored {
		if n > 1 {
			f.Errorf("%s is stored %d times", text, n)
		}
	}
	for text := range f.seen {
		if stored[text] == 0 {
			f.Errorf("%s was handed on and is lost", text)
		}
	}
	f.Logf("%d acknowledged, %d stored, %d handed on", len(f.acknowledged), len(stored), len(f.seen))
}
