package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// The log while Redis is away, full, slow or has lost its scripts.

func TestAppendReloadsScript(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	for i := range 3 {
		b.append(noted(account, strconv.Itoa(i)))
		if err := b.rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.wantEvents(account, 3)
}

func TestAppendLimits(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	b := newLogBench(t, server, LogOptions{Queue: 2, Writers: 1})
	account := signal.NewAccountID()
	b.append(noted(account, "warm"))
	server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	const callers = 8
	for range callers {
		go func() {
			_, err := b.log.Append(ctx, noted(account, "x"))
			errs <- err
		}()
	}
	// One batch is in flight and two operations wait: the others are refused at once.
	refused := 0
	for ; refused < callers-3-1; refused++ {
		if err := <-errs; signal.KindOf(err) != signal.KindUnavailable {
			t.Fatalf("refused with %v", err)
		}
	}
	cancel()
	for ; refused < callers; refused++ {
		if err := <-errs; signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("after the context's end: %v", err)
		}
	}
	server.Continue()
	if _, err := b.log.Append(ctx, noted(account, "x")); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestAppendAfterLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	b := newLogBench(t, server, LogOptions{AppendTimeout: 20 * time.Second, Writers: 1})
	b.log.writers[0].attempts = 30 * time.Millisecond
	account := signal.NewAccountID()
	b.append(noted(account, "warm"))
	const callers = 20
	var wg sync.WaitGroup
	server.Pause()
	for i := range callers {
		wg.Go(func() { b.append(noted(account, strconv.Itoa(i))) })
	}
	time.Sleep(200 * time.Millisecond) // several attempts, all of which Redis will read later
	server.Continue()
	wg.Wait()
	seen := map[string]int{}
	for _, e := range b.eventsOf(account) {
		seen[string(e.Data)]++
	}
	for text, n := range seen {
		if n != 1 {
			t.Errorf("event %s is there %d times", text, n)
		}
	}
	if len(seen) != callers+1 {
		t.Errorf("%d events, want %d", len(seen), callers+1)
	}
}

// newProxiedBench returns a bench with one writer, whose store reaches Redis by a proxy.
func newProxiedBench(t *testing.T) (*logBench, *redistest.Proxy) {
	t.Helper()
	server := redistest.New(t)
	proxy := redistest.NewProxy(t, server)
	store := openStore(t, redisclient.Options{URL: proxy.URL(), Partitions: 4})
	log := openLog(t, store, LogOptions{AppendTimeout: 20 * time.Second, Writers: 1})
	return &logBench{T: t, server: server, store: store, log: log, rdb: server.Client()}, proxy
}

// TestAppendToASlowServer checks that a server that answers, but later than the first attempts
// wait, is waited for within the limit of the append.
func TestAppendToASlowServer(t *testing.T) {
	t.Parallel()
	b, proxy := newProxiedBench(t)
	account := signal.NewAccountID()
	b.append(noted(account, "warm"))
	b.log.writers[0].attempts = 20 * time.Millisecond
	proxy.Delay(200 * time.Millisecond)
	b.append(noted(account, "slow"))
	b.wantEvents(account, 2)
}

// TestAppendAcrossKill kills Redis under load: every answered event is there once, and none is
// there twice.
func TestAppendAcrossKill(t *testing.T) {
	t.Parallel()
	server := redistest.NewDurable(t)
	b := newLogBench(t, server, LogOptions{AppendTimeout: 500 * time.Millisecond})
	b.log.writers[0].attempts = 50 * time.Millisecond
	accounts := []signal.AccountID{signal.NewAccountID(), signal.NewAccountID(), signal.NewAccountID()}
	var mu sync.Mutex
	acknowledged := map[string]signal.Position{}
	var done atomic.Bool
	var count atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for k := 0; !done.Load(); k++ {
				text := fmt.Sprintf("%d %d", i, k)
				p, err := b.log.Append(t.Context(), noted(accounts[i%len(accounts)], text))
				if err != nil {
					if signal.KindOf(err) != signal.KindUnavailable {
						t.Errorf("Append: %v", err)
					}
					time.Sleep(time.Millisecond)
					continue
				}
				mu.Lock()
				acknowledged[text] = p
				mu.Unlock()
				count.Add(1)
			}
		})
	}
	for round := range 4 {
		if round > 0 {
			server.Kill()
			server.Restart()
		}
		n := count.Load()
		eventually(t, func() bool { return count.Load() > n+500 })
	}
	done.Store(true)
	wg.Wait()

	found := map[string]signal.Position{}
	for p := range b.store.Partitions() {
		events, err := b.store.ReadLog(t.Context(), p, signal.Position{}, 10_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if at, twice := found[string(e.Data)]; twice {
				t.Errorf("event %s is there twice: at %v and %v", e.Data, at, e.Position)
			}
			found[string(e.Data)] = e.Position
		}
	}
	for text, p := range acknowledged {
		if found[text] != p {
			t.Errorf("event %s was answered with %v and is at %v", text, p, found[text])
		}
	}
	t.Logf("%d acknowledged, %d found", len(acknowledged), len(found))
}

func TestAppendWhileDown(t *testing.T) {
	t.Parallel()
	server := redistest.NewDurable(t)
	b := newLogBench(t, server, LogOptions{AppendTimeout: time.Second, Writers: 1})
	account := signal.NewAccountID()
	b.append(noted(account, "before"))
	server.Kill()
	_, err := b.log.Append(t.Context(), noted(account, "lost"))
	wantKind(t, "while Redis is away", err, signal.KindUnavailable)
	w := b.log.writers[0]
	w.mu.Lock()
	if w.down == nil {
		t.Error("the writer has not noticed that Redis is away")
	}
	// Without a probe for a while, all are refused at once.
	w.nextProbe = time.Now().Add(time.Hour)
	w.mu.Unlock()
	for range 1000 {
		_, err := b.log.Append(t.Context(), noted(account, "refused"))
		wantKind(t, "without a probe", err, signal.KindUnavailable)
	}
	w.mu.Lock()
	w.nextProbe = time.Time{}
	w.mu.Unlock()
	server.Restart()
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "after"))
		return err == nil
	})
	b.append(noted(account, "then"))
	events := b.eventsOf(account)
	if first, last := string(events[0].Data), string(events[len(events)-1].Data); first != "before" || last != "then" {
		t.Errorf("log goes from %s to %s", first, last)
	}
	for _, e := range events {
		if string(e.Data) == "refused" {
			t.Fatal("a refused event is in the log")
		}
	}
}

// A server that answers later than probeTimeout, as on a machine with too much work, is found again after an outage.
func TestAppendAfterAnOutageToASlowServer(t *testing.T) {
	t.Parallel()
	b, proxy := newProxiedBench(t)
	account := signal.NewAccountID()
	b.append(noted(account, "before"))
	proxy.Delay(probeTimeout + 50*time.Millisecond)
	w := b.log.writers[0]
	w.mu.Lock()
	w.down = errors.New("an outage")
	w.mu.Unlock()
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "after"))
		return err == nil
	})
	if w.mu.Lock(); w.down != nil || w.probe != probeTimeout {
		t.Errorf("after it the log is down: %v, and the next probe may take %v", w.down, w.probe)
	}
	w.mu.Unlock()
}

func TestLogClose(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	b := newLogBench(t, server, LogOptions{})
	account := signal.NewAccountID()
	b.append(noted(account, "warm"))
	var stored atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				if _, err := b.log.Append(t.Context(), noted(account, "x")); err != nil {
					if signal.KindOf(err) != signal.KindUnavailable {
						t.Errorf("Append: %v", err)
					}
					return
				}
				stored.Add(1)
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			eventually(t, func() bool { return stored.Load() > 100 })
			if err := b.log.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if n := int64(len(b.eventsOf(account))); n != stored.Load()+1 {
		t.Errorf("%d events, %d were answered", n, stored.Load()+1)
	}
}

func TestRetriable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"NOSCRIPT No matching script.": true, "LOADING Redis is loading": true, "READONLY You can't write": true,
		"CLUSTERDOWN x": true, "TRYAGAIN x": true, "MOVED 1 a:1": true, "MASTERDOWN x": true, "BUSY x": true,
		"OOM command not allowed": true, "NOREPLICAS x": true, "ERR max number of clients reached": true,
		"ERR syntax error": false, "WRONGTYPE x": false, "CROSSSLOT x": false, "OLDBATCH x": false,
	} {
		if got := retriable(redisclient.AnswerError(text)); got != want {
			t.Errorf("retriable(%q) = %v, want %v", text, got, want)
		}
	}
	if !retriable(context.DeadlineExceeded) || !retriable(fmt.Errorf("dial: %w", errors.New("refused"))) {
		t.Error("an error of the network is not retriable")
	}
}

// TestAppendOutOfMemory: a full Redis refuses the whole batch and answers later.
func TestAppendOutOfMemory(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{AppendTimeout: time.Second})
	account := signal.NewAccountID()
	b.append(noted(account, "before"))
	b.rdb.ConfigSet(t.Context(), "maxmemory", "1")
	_, err := b.log.Append(t.Context(), created(logSignal(account)))
	wantKind(t, "a full Redis", err, signal.KindUnavailable)
	b.rdb.ConfigSet(t.Context(), "maxmemory", "0")
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "after"))
		return err == nil
	})
	if n := b.rdb.Exists(t.Context(), b.store.OpenKey(b.store.Partition(account))).Val(); n != 0 {
		t.Error("a refused signal is open")
	}
}
