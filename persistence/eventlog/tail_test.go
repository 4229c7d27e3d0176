package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// tailBench is a tail and what its subscribers have been given.
type tailBench struct {
	*logBench
	tail   *Tail
	buffer redisclient.Buffer // of read

	mu   sync.Mutex
	seen map[int][]signal.Event
	gaps map[int]int
}

func newTailBench(t *testing.T, server *redistest.Server, o TailOptions) *tailBench {
	t.Helper()
	return tailBenchOf(newLogBench(t, server, LogOptions{AppendTimeout: time.Second}), o)
}

// newTailBenchOn is newTailBench with options of the connection. Replicas get as long as that allows.
func newTailBenchOn(t *testing.T, server *redistest.Server, c redisclient.Options) *tailBench {
	t.Helper()
	return tailBenchOf(newLogBenchOn(t, server, c, LogOptions{AppendTimeout: c.Timeout}), TailOptions{})
}

func tailBenchOf(l *logBench, o TailOptions) *tailBench {
	b := &tailBench{logBench: l,
		seen: map[int][]signal.Event{}, gaps: map[int]int{}}
	b.tail = NewTail(b.store, o)
	for p := range b.store.Partitions() {
		b.tail.For(Owned).Follow(p)
	}
	b.tail.Subscribe(func(p int, events []signal.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen[p] = append(b.seen[p], events...)
	})
	b.tail.OnGap(func(p int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.gaps[p]++
	})
	return b
}

// run starts the tail and waits until it is attached.
func (b *tailBench) run() {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.tail.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Errorf("Run: %v", err)
		}
		if b.tail.Attached() {
			b.Error("the tail is attached after its end")
		}
	})
	eventually(b.T, b.tail.Attached)
}

// attach does what run begins with, for tests that call read themselves.
func (b *tailBench) attach() {
	b.Helper()
	for p := range 4 {
		if err := b.tail.partitions[p].attach(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// read has the tail read once.
func (b *tailBench) read() {
	b.Helper()
	if _, err := b.tail.readers[0].read(b.Context(), []int{0, 1, 2, 3}, redisclient.BlockTimeout, &b.buffer); err != nil {
		b.Errorf("read: %v", err)
	}
}

// texts returns the data of the events seen of a partition.
func (b *tailBench) texts(p int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, e := range b.seen[p] {
		list = append(list, string(e.Data))
	}
	return list
}

func (b *tailBench) gapsOf(p int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gaps[p]
}

// wantTexts fails unless the events seen of a partition are want.
func (b *tailBench) wantTexts(p int, want ...string) {
	b.Helper()
	if got := fmt.Sprint(b.texts(p)); got != fmt.Sprint(want) {
		b.Errorf("seen %v, want %v", got, want)
	}
}

func TestTailDeliversAppendedEvents(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{Count: 7})
	account, other := accountIn(b.store, 1), accountIn(b.store, 3)
	before := b.append(noted(account, "before"))
	b.run()
	if p := b.tail.partitions[1].follow.position(); p != before {
		t.Errorf("attached at %v, want %v", p, before)
	}
	var wg sync.WaitGroup
	var want [2][]string
	for i, a := range []signal.AccountID{account, other} {
		wg.Go(func() {
			for k := range 100 {
				text := strconv.Itoa(k)
				want[i] = append(want[i], text)
				p, err := b.log.Append(t.Context(), noted(a, text))
				if err != nil {
					t.Error(err)
				}
				if err := b.tail.Wait(t.Context(), b.store.Partition(a), p); err != nil {
					t.Error(err)
				}
				if n := len(b.texts(b.store.Partition(a))); n != k+1 {
					t.Errorf("%d events seen after waiting for the %d-th", n, k+1)
				}
			}
		})
	}
	wg.Wait()
	b.wantTexts(1, want[0]...)
	b.wantTexts(3, want[1]...)
	if len(b.gaps) > 0 {
		t.Errorf("gaps by partition: %v", b.gaps)
	}
}

func TestTailSkipsBadEntries(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{})
	b.run()
	account := accountIn(b.store, 0)
	b.append(noted(account, "1"))
	for _, values := range [][]string{{"x", "y"}, {"h", "", "d", ""}, {"h", "\x09abc", "d", "{}"}, {"h", "\x01"}} {
		add := &redis.XAddArgs{Stream: b.store.EventsKey(0), Values: values}
		if err := b.rdb.XAdd(t.Context(), add).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p := b.append(noted(account, "2"))
	if err := b.tail.Wait(t.Context(), 0, p); err != nil {
		t.Fatal(err)
	}
	b.wantTexts(0, "1", "2")
	if events, err := b.store.ReadLog(t.Context(), 0, signal.Position{}, 2); err != nil || len(events) != 2 {
		t.Errorf("ReadLog returned %d events, %v; want 2", len(events), err)
	}
}

func TestTailAcrossRestart(t *testing.T) {
	t.Parallel()
	server := redistest.NewDurable(t)
	b := newTailBench(t, server, TailOptions{})
	b.run()
	account := accountIn(b.store, 2)
	var want []string
	last := signal.Position{}
	for i := range 60 {
		if i%20 == 10 {
			server.Kill()
			eventually(t, func() bool { return !b.tail.Attached() })
			server.Restart()
		}
		text := strconv.Itoa(i)
		eventually(t, func() bool {
			p, err := b.log.Append(t.Context(), noted(account, text))
			last = p
			return err == nil
		})
		want = append(want, text)
	}
	if err := b.tail.Wait(t.Context(), 2, last); err != nil {
		t.Fatal(err)
	}
	// An append whose outcome was not known may be there besides its repetition.
	got := b.texts(2)
	k := 0
	for _, text := range got {
		if k < len(want) && text == want[k] {
			k++
		} else if k == 0 || text != want[k-1] {
			t.Fatalf("seen %v", got)
		}
	}
	if k != len(want) {
		t.Errorf("seen %v", got)
	}
	if n := b.gapsOf(2); n != 0 {
		t.Errorf("%d gaps", n)
	}
}

func TestTailReportsLoss(t *testing.T) {
	t.Parallel()
	account := func(b *tailBench) signal.AccountID { return accountIn(b.store, 0) }
	for name, lose := range map[string]func(b *tailBench){
		"trimmed while it was away": func(b *tailBench) {
			b.append(noted(account(b), "lost"))
			b.append(noted(account(b), "kept"))
			b.rdb.XTrimMaxLen(context.Background(), b.store.EventsKey(0), 1)
		},
		"all trimmed": func(b *tailBench) {
			b.append(noted(account(b), "lost"))
			b.rdb.XTrimMaxLen(context.Background(), b.store.EventsKey(0), 0)
		},
		"lost by Redis": func(b *tailBench) { b.rdb.FlushAll(context.Background()) },
		"the end lost by Redis": func(b *tailBench) {
			b.rdb.FlushAll(context.Background())
			b.addAt(signal.Position{MS: 1, Seq: 1}, "old")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTailBench(t, redistest.New(t), TailOptions{})
			before := b.append(noted(account(b), "before"))
			part := b.tail.partitions[0]
			ctx := t.Context()
			b.attach() // not run, so that the loss comes between two reads
			lose(b)
			for b.rdb.Time(ctx).Val().UnixMilli() <= before.MS { // else the next event may get the id of a lost one
			}
			part.suspect = true
			done := make(chan struct{})
			go func() {
				defer close(done)
				b.read()
				b.read()
			}()
			next := b.append(noted(account(b), "next"))
			if err := b.tail.Wait(ctx, 0, next); err != nil {
				t.Fatal(err)
			}
			<-done
			if n := b.gapsOf(0); n != 1 {
				t.Errorf("%d gaps, want 1", n)
			}
			if texts := b.texts(0); len(texts) == 0 || texts[len(texts)-1] != "next" {
				t.Errorf("seen %v", texts)
			}
			if part.suspect || b.tail.partitions[0].follow.position() != next || next.Compare(before) <= 0 {
				t.Errorf("passed %v, want %v", b.tail.partitions[0].follow.position(), next)
			}
		})
	}
}

// TestTailPassesRemovedEnd: no caller waits for an entry that was removed before it was read.
func TestTailPassesRemovedEnd(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{})
	ctx := t.Context()
	b.attach()
	p := b.append(noted(accountIn(b.store, 0), "removed"))
	head, err := b.tail.Head(ctx, 0)
	if err != nil || head != p {
		t.Fatalf("Head = %v, %v; want %v", head, err, p)
	}
	b.rdb.XDel(ctx, b.store.EventsKey(0), p.String())
	waited := make(chan error)
	go func() { waited <- b.tail.Wait(ctx, 0, p) }()
	eventually(t, b.tail.partitions[0].follow.awaited)
	b.read()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func TestTailHeadAndWait(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	b := newTailBench(t, server, TailOptions{})
	if head, err := b.tail.Head(t.Context(), 0); err != nil || !head.IsZero() {
		t.Errorf("Head of an empty log = %v, %v", head, err)
	}
	b.run()
	// Each answer is at least as new as the log before the question, which others share that ask for other logs.
	var wg sync.WaitGroup
	for i := range 16 {
		partition := i % 3
		account := accountIn(b.store, partition)
		wg.Go(func() {
			for range 40 {
				p, err := b.log.Append(t.Context(), noted(account, "x"))
				if err != nil {
					t.Error(err)
					return
				}
				head, err := b.tail.Head(t.Context(), partition)
				if err != nil || head.Compare(p) < 0 {
					t.Errorf("Head = %v, %v; %v was appended before", head, err, p)
				}
				if end, err := b.store.LastEvent(t.Context(), partition); err != nil || end.Compare(head) < 0 {
					t.Errorf("Head = %v, and then the end is %v, %v", head, end, err)
				}
				if head, err := b.tail.Head(t.Context(), 3); err != nil || !head.IsZero() {
					t.Errorf("Head of an empty log = %v, %v", head, err)
				}
				if err := b.tail.Wait(t.Context(), partition, head); err != nil {
					t.Error(err)
				}
				if passed := b.tail.partitions[partition].follow.position(); passed.Compare(head) < 0 {
					t.Errorf("passed %v after waiting for %v", passed, head)
				}
			}
		})
	}
	wg.Wait()

	future := b.tail.partitions[0].follow.position().Plus(1)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() { waited <- b.tail.Wait(ctx, 0, future) }()
	eventually(t, b.tail.partitions[0].follow.awaited)
	cancel()
	wantKind(t, "Wait after the context's end", <-waited, signal.KindUnavailable)
	if b.tail.partitions[0].follow.awaited() {
		t.Error("a caller that has left is still kept")
	}
	server.Pause()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := b.tail.Head(ctx, 0)
	wantKind(t, "Head of a Redis that does not answer", err, signal.KindUnavailable)
	server.Continue()
	// No caller waits for the end of a log that Redis has lost.
	b.rdb.FlushAll(t.Context())
	head, err := b.tail.Head(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.tail.Wait(t.Context(), 0, head); err != nil {
		t.Error(err)
	}
}

// TestHeadShares: callers that come while a question is in flight share the next one.
func TestHeadShares(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	b := newTailBench(t, server, TailOptions{})
	b.tail.Head(t.Context(), 0)
	calls := func() int64 {
		info, err := b.rdb.InfoMap(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		fmt.Sscanf(info["Commandstats"]["cmdstat_xrevrange"], "calls=%d", &n)
		return n
	}
	before := calls()
	server.Pause()
	var wg sync.WaitGroup
	wg.Go(func() { b.tail.Head(t.Context(), 0) })
	heads := b.tail.readers[0].heads
	asked := func() bool { heads.mu.Lock(); defer heads.mu.Unlock(); return heads.asked != nil }
	eventually(t, asked)
	var started sync.WaitGroup
	for range 50 {
		started.Add(1)
		wg.Go(func() { started.Done(); b.tail.Head(t.Context(), 0) })
	}
	started.Wait()
	eventually(t, func() bool { heads.mu.Lock(); defer heads.mu.Unlock(); return heads.next != nil })
	server.Continue()
	wg.Wait()
	// A few more if some of the 50 were slow to come.
	if n := calls() - before; n < 2 || n > 10 {
		t.Errorf("51 callers asked %d questions", n)
	}
}

func TestTailCloseEndsQuestions(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	b := newTailBench(t, server, TailOptions{})
	server.Pause()
	defer server.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := b.tail.Head(ctx, 0)
	wantKind(t, "a question that Redis does not answer", err, signal.KindUnavailable)
	if err := b.tail.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked := b.tail.readers[0].heads.asked; asked != nil {
		t.Error("Close did not wait for the question")
	}
	if _, err := b.tail.Head(t.Context(), 0); !errors.Is(err, tasks.ErrClosed) {
		t.Errorf("a question after Close: %v", err)
	}
}
