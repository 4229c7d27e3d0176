package eventlog

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// newLazyBench returns a tail without a reason to follow any partition.
func newLazyBench(t *testing.T, o TailOptions) *tailBench {
	t.Helper()
	b := newTailBench(t, redistest.New(t), o)
	for p := range b.tail.partitions {
		b.tail.partitions[p].follow.holds[Owned]--
	}
	return b
}

func TestOnlyNeededPartitionsAreRead(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{Readers: 1})
	b.run()
	streams, lists := b.tail.For(Streams), b.tail.For(Lists)
	if streams.Attached(1) || streams.Attached(2) {
		t.Error("a partition is followed without a reason")
	}
	b.append(noted(accountIn(b.store, 1), "before"))
	streams.Follow(1)
	if err := streams.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	b.append(noted(accountIn(b.store, 2), "not read"))
	p := b.append(noted(accountIn(b.store, 1), "read"))
	if err := b.tail.Wait(t.Context(), 1, p); err != nil {
		t.Fatal(err)
	}
	b.wantTexts(1, "read")
	if err := lists.Use(t.Context(), 2); err != nil { // while the read of 1 waits for events
		t.Fatal(err)
	}
	p = b.append(noted(accountIn(b.store, 2), "listed"))
	if err := b.tail.Wait(t.Context(), 2, p); err != nil {
		t.Fatal(err)
	}
	b.wantTexts(2, "listed")
	if lists.Attached(0) || lists.Attached(3) {
		t.Error("other partitions are followed, too")
	}
	// A caller that waits is a reason.
	p = b.append(noted(accountIn(b.store, 3), "x"))
	if err := b.tail.Wait(t.Context(), 3, p); err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[Reason]float64{Owned: 0, Streams: 1, Lists: 1} {
		if got := followed(t, b.tail)[reasonNames[reason]]; got != want {
			t.Errorf("%v partitions are followed for %s, want %v", got, reasonNames[reason], want)
		}
	}
}

// followed returns the gauge by reason.
func followed(t *testing.T, tail *Tail) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(tail.Collector())
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != int(reasons) {
		t.Fatalf("gathered %v, %v; want one series a reason", families, err)
	}
	values := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	return values
}

// TestNewcomersDoNotWait: a partition is attached and read although the read of the others waits for
// events, which here never come.
func TestNewcomersDoNotWait(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{Readers: 1})
	r := b.tail.readers[0]
	r.cover([]int{0, 1}) // by a read that does not end
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.join(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := b.tail.For(Lists).Use(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	p := b.append(noted(accountIn(b.store, 2), "read"))
	if err := b.tail.Wait(t.Context(), 2, p); err != nil {
		t.Fatal(err)
	}
	p = b.append(noted(accountIn(b.store, 3), "before"))
	if err := b.tail.Wait(t.Context(), 3, p); err != nil { // a newcomer beside another one
		t.Fatal(err)
	}
	b.wantTexts(2, "read")
}

// TestNewcomersGetEveryEventOnce: partitions are attached one by one while events are appended to
// all, so that reads overlap.
func TestNewcomersGetEveryEventOnce(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{Readers: 1})
	b.run()
	var want [4][]string
	last := [4]signal.Position{}
	for i := range 200 {
		if p := i / 50; i%50 == 0 {
			b.tail.For(Owned).Follow(p)
			if err := b.tail.For(Owned).Await(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for p := range 4 {
			last[p] = b.append(noted(accountIn(b.store, p), strconv.Itoa(i)))
			if i >= 50*p {
				want[p] = append(want[p], strconv.Itoa(i))
			}
		}
	}
	for p := range 4 {
		if err := b.tail.Wait(t.Context(), p, last[p]); err != nil {
			t.Fatal(err)
		}
		b.wantTexts(p, want[p]...)
		if n := b.gapsOf(p); n > 0 {
			t.Errorf("%d gaps of partition %d", n, p)
		}
	}
}

// TestUnusedPartitionsAreForgotten: subscribers see the end as a gap, and a fresh start when the
// partition is used again.
func TestUnusedPartitionsAreForgotten(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{Readers: 1})
	follow, lists, account := b.tail.partitions[0].follow, b.tail.For(Lists), accountIn(b.store, 0)
	if follow.idle != 10*time.Minute { // as the documents say
		t.Errorf("partitions are kept for %s", follow.idle)
	}
	follow.idle = time.Hour // the test itself may be slow
	round := func() {
		t.Helper()
		if _, err := b.tail.readers[0].update(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	follow.used[Lists] = follow.clock()
	release := b.tail.For(Streams).Follow(0)
	round()
	b.append(noted(account, "seen"))
	b.readOnly(0)
	age := func() {
		follow.used = [reasons]int64{Lists: 1, Streams: 1, Waits: 1}
		follow.started = time.Now().Add(-2 * time.Hour)
	}
	age()
	if round(); !lists.Attached(0) {
		t.Error("a partition with a stream is forgotten")
	}
	release()
	if round(); !lists.Attached(0) {
		t.Error("a partition is forgotten at once when its last stream ends")
	}
	age()
	if round(); lists.Attached(0) || b.gapsOf(0) != 1 || !b.tail.partitions[0].follow.position().IsZero() {
		t.Errorf("attached %v, %d gaps, passed %v", lists.Attached(0), b.gapsOf(0), b.tail.partitions[0].follow.position())
	}
	if round(); b.gapsOf(0) != 1 {
		t.Error("a gap of a partition that was not followed")
	}
	b.append(noted(account, "missed"))
	b.tail.For(Owned).Follow(0)
	round()
	b.append(noted(account, "later"))
	b.readOnly(0)
	b.wantTexts(0, "seen", "later")
}

// readOnly has the tail read some partitions once.
func (b *tailBench) readOnly(partitions ...int) {
	b.Helper()
	if _, err := b.tail.readers[0].read(b.Context(), partitions, redisclient.BlockTimeout, &b.buffer); err != nil {
		b.Fatal(err)
	}
}

// TestOwnersReleaseAtOnce: a partition that another node took over is not read for longer.
func TestOwnersReleaseAtOnce(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{Readers: 1})
	release := b.tail.For(Owned).Follow(2)
	for _, want := range []bool{true, false} {
		if _, err := b.tail.readers[0].update(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.tail.For(Owned).Attached(2); got != want {
			t.Errorf("attached %v, want %v", got, want)
		}
		release()
	}
}

// TestStaleReadsAreDropped: of two reads from the same position one is handed on, and neither of a
// partition that was detached meanwhile.
func TestStaleReadsAreDropped(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{})
	b.attach()
	after := b.tail.partitions[0].cursor
	b.append(noted(accountIn(b.store, 0), "once"))
	entries, err := b.store.ReadRange(t.Context(), b.store.EventsKey(0), "-", "+", 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.tail.partitions[0].take(t.Context(), after, entries, false); err != nil {
			t.Fatal(err)
		}
	}
	b.wantTexts(0, "once")
	b.tail.partitions[1].follow.attached = false
	if err := b.tail.partitions[1].take(t.Context(), b.tail.partitions[1].cursor, entries, false); err != nil {
		t.Fatal(err)
	}
	b.wantTexts(1)
}

// TestFollowersAwaitTheAttachment: whatever is read after Use or Await has returned, later events follow, so
// neither returns before the partition's cursor is set.
func TestFollowersAwaitTheAttachment(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(ctx context.Context, tail *Tail) error{
		"a list": func(ctx context.Context, tail *Tail) error { return tail.For(Lists).Use(ctx, 0) },
		"a stream": func(ctx context.Context, tail *Tail) error {
			tail.For(Streams).Follow(0)
			return tail.For(Streams).Await(ctx, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLazyBench(t, TailOptions{Readers: 1}) // which does not run
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			err := wait(ctx, b.tail)
			wantKind(t, "before the attachment", err, signal.KindUnavailable)
			if _, err := b.tail.readers[0].update(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.append(noted(accountIn(b.store, 0), "later"))
			if err := wait(t.Context(), b.tail); err != nil {
				t.Errorf("after the attachment: %v", err)
			}
			b.readOnly(0)
			b.wantTexts(0, "later")
		})
	}
}

func TestUseWithoutRedis(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{}) // which does not run
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantKind(t, "Use", b.tail.For(Lists).Use(ctx, 0), signal.KindUnavailable)
	if got := fmt.Sprint(b.tail.readers[0].newcomers()); got != "[0]" {
		t.Errorf("%s are to be followed", got)
	}
}

// TestConnectionsShortenPauses: with a longest pause of an hour, a tail that did not know how often events are shown would
// pause twice as long after each of these.
func TestConnectionsShortenPauses(t *testing.T) {
	t.Parallel()
	b := newLazyBench(t, TailOptions{Readers: 1, MaxPause: time.Hour})
	streams := b.tail.For(Streams)
	b.tail.Subscribe(func(p int, events []signal.Event) { streams.Shown(p, manyShown*len(events)) })
	b.run()
	streams.Follow(1)
	if err := streams.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 18 { // 1 ms, doubled so often, is over two minutes
		want = append(want, strconv.Itoa(i))
		b.append(noted(accountIn(b.store, 1), want[i]))
		eventually(t, func() bool { return len(b.texts(1)) == len(want) })
	}
	b.wantTexts(1, want...)
}
