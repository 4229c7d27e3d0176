package deliveries

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// someWaits returns waits with all kinds of fields.
func someWaits() []delivery.Wait {
	head, last := signal.NewDeliveryID(), signal.NewDeliveryID()
	return []delivery.Wait{
		{Signal: signal.NewSignalID(), Head: head, HeadAt: milli(1), Due: milli(31_000)},
		{Signal: signal.NewSignalID(), Head: head, HeadAt: milli(1), Due: milli(31_000), Last: last, LastAt: milli(20)},
		{Signal: signal.NewSignalID(), HeadAt: milli(1), Due: milli(31_000), Last: last, LastAt: milli(20)},
	}
}

func TestWaitCodec(t *testing.T) {
	t.Parallel()
	for _, w := range someWaits() {
		b := appendWait(nil, &w)
		got, err := decodeWait(w.Signal, b)
		if d := gocmp.Diff(w, got); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
		for n := range b {
			if _, err := decodeWait(w.Signal, b[:n]); err == nil {
				t.Errorf("the first %d of %d bytes are taken for a wait", n, len(b))
			}
		}
		b[0] = 9
		if _, err := decodeWait(w.Signal, b); err == nil || !strings.Contains(err.Error(), "version 9") {
			t.Errorf("of another version: %v", err)
		}
	}
}

func FuzzDecodeWait(f *testing.F) {
	for _, w := range someWaits() {
		f.Add(appendWait(nil, &w))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := decodeWait("sig_1", b)
		if err != nil {
			return
		}
		if got := appendWait(nil, &w); string(got) != string(b) {
			t.Errorf("%x is written as %x", b, got)
		}
	})
}

func TestWaitsAreKept(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx, w := b.Context(), b.register()
	store := func(list ...delivery.Wait) {
		t.Helper()
		b.wantLeft(nil, delivery.Outcomes{Account: b.account, Webhook: w.ID, Waits: list})
	}
	wants := func(want ...delivery.Wait) {
		t.Helper()
		got, err := b.hooks.Queue.SignalWaits(ctx, b.p, w.ID)
		b.must("read", err)
		for _, list := range [][]delivery.Wait{want, got} {
			slices.SortFunc(list, func(a, b delivery.Wait) int { return cmp.Compare(a.Signal, b.Signal) })
		}
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	wants()
	all := someWaits()
	store(all...)
	wants(all...)
	if ttl := b.rdb.TTL(ctx, b.store.WaitsKey(b.p, w.ID)).Val(); ttl < waitsTime-time.Minute || ttl > waitsTime {
		t.Errorf("kept for %v", ttl)
	}
	all[0].Last, all[0].LastAt = signal.NewDeliveryID(), milli(99)
	store(all[0], delivery.Wait{Signal: all[1].Signal})
	wants(all[0], all[2])
	many := make([]delivery.Wait, 2*waitsChunk+1)
	for i := range many {
		many[i] = all[0]
		many[i].Signal = signal.NewSignalID()
	}
	store(many...)
	b.rdb.HSet(ctx, b.store.WaitsKey(b.p, w.ID), "sig_unreadable", "x")
	wants(append(slices.Clone(many), all[0], all[2])...)
	b.must("remove", b.hooks.Settings.RemoveWebhook(ctx, b.account, w.ID))
	b.erase()
	wants()
}

// A page past the end of many pending deliveries is found without reading them.
func TestPageBeyondPendingDeliveries(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w := b.register()
	at := make([]time.Time, 2*memberChunk)
	for i := range at {
		at[i] = milli(int64(i))
	}
	b.deliver(w, at...)
	before := b.calls("zrevrange")
	list, total, err := b.hooks.History.Deliveries(b.Context(), b.account, w.ID,
		delivery.Query{Status: delivery.Pending, Offset: 1 << 40, Limit: 10})
	if len(list) != 0 || total != len(at) || err != nil {
		t.Errorf("%d of %d deliveries, %v", len(list), total, err)
	}
	if after := b.calls("zrevrange"); after != before {
		t.Errorf("the deliveries were read: %d reads, before %d", after, before)
	}
	list, _, err = b.hooks.History.Deliveries(b.Context(), b.account, w.ID,
		delivery.Query{Status: delivery.Pending, Offset: len(at) - 1, Limit: 10})
	if len(list) != 1 || err != nil {
		t.Errorf("the last page has %d deliveries, %v", len(list), err)
	}
}

// A late page of many pending deliveries is found without reading the earlier ones, wherever ended
// ones lie between them.
func TestLatePageOfPendingDeliveries(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w := b.register()
	at := make([]time.Time, 4*memberChunk)
	for i := range at {
		at[i] = milli(int64(i / 3)) // three of each millisecond
	}
	all := b.deliver(w, at...)
	var pending []signal.DeliveryID
	for i, d := range all {
		switch {
		case i%7 == 3:
			b.outcomes(w, attempt(d, 200, milli(5000), time.Time{}))
		case i%7 == 5 || i > 1000 && i < 1500:
			b.outcomes(w, attempt(d, 500, milli(5000), time.Time{}))
		default:
			pending = append(pending, d.ID)
		}
	}
	shown := map[signal.DeliveryID]bool{}
	var before delivery.Delivery
	for offset := 0; offset < len(pending)+500; offset += 500 {
		reads := b.calls("zrevrange")
		list, total, err := b.hooks.History.Deliveries(b.Context(), b.account, w.ID,
			delivery.Query{Status: delivery.Pending, Offset: offset, Limit: 500})
		if err != nil || total != len(pending) || len(list) != max(0, min(500, len(pending)-offset)) {
			t.Fatalf("offset %d: %d of %d deliveries, %v", offset, len(list), total, err)
		}
		if n := b.calls("zrevrange") - reads; n > 3 {
			t.Errorf("offset %d: %d reads", offset, n)
		}
		for i, d := range list {
			if shown[d.ID] || d.Status != delivery.Pending || i > 0 && d.CreatedAt.After(before.CreatedAt) {
				t.Fatalf("offset %d: delivery %d is %v, twice %v, after %v", offset, i, d, shown[d.ID], before)
			}
			shown[d.ID], before = true, d
		}
	}
	if len(shown) != len(pending) {
		t.Errorf("%d of %d were shown", len(shown), len(pending))
	}
}

// Pending deliveries are counted by account, whatever changes them.
func TestPendingDeliveriesAreCounted(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w, v := b.register(), b.register()
	other, none := accountIn(b.store, b.p), accountIn(b.store, b.p)
	theirs, err := b.hooks.Settings.Register(b.Context(), testWebhook(other), 100, nil)
	b.must("register", err)
	check := func(want ...int) {
		t.Helper()
		n, err := b.hooks.Queue.PendingDeliveries(b.Context(), b.p, []signal.AccountID{b.account, none, other})
		if err != nil || !slices.Equal(n, want) {
			t.Errorf("%v are pending, %v, want %v", n, err, want)
		}
	}
	check(0, 0, 0)
	list := b.deliver(w, milli(1), milli(2), milli(3))
	b.deliver(v, milli(1))
	b.deliver(&theirs, milli(1), milli(2))
	check(4, 0, 2)
	b.outcomes(w, attempt(list[0], 200, milli(5), time.Time{}), attempt(list[1], 500, milli(5), milli(50)))
	check(3, 0, 2)
	b.must("remove", b.hooks.Settings.RemoveWebhook(b.Context(), b.account, v.ID))
	check(2, 0, 2)
	_, err = b.hooks.Changes.CancelDeliveries(b.Context(), b.account, w.ID)
	b.must("cancel", err)
	check(0, 0, 2)
}

// calls returns how often Redis was given a command.
func (b *hookBench) calls(command string) int {
	_, line, _ := strings.Cut(b.rdb.Info(b.Context(), "commandstats").Val(), "cmdstat_"+command+":calls=")
	calls, _, _ := strings.Cut(line, ",")
	n, _ := strconv.Atoi(calls)
	return n
}

// The oldest ended deliveries are dropped while the records take too much memory. Pending ones
// stay.
func TestBytesOfAWebhookAreBounded(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx, w := b.Context(), b.register()
	at := make([]time.Time, 600)
	for i := range at {
		at[i] = milli(int64(i))
	}
	list := b.deliver(w, at...)
	for i := range list[:500] {
		d := attempt(list[i], 500, milli(1000), time.Time{})
		d.Attempts[0].ResponseBody = strings.Repeat(string(rune('a'+i%26)), delivery.MaxResponseBody)
		b.outcomes(w, d)
	}
	const limit = 1 << 20
	steps := b.prune(w, 100*365*24*time.Hour, 10_000, limit)
	used := b.rdb.MemoryUsage(ctx, b.store.DeliveriesKey(b.p, w.ID), 0).Val()
	if used > limit+limit/8 || used < limit-limit/8 || steps < 2 {
		t.Errorf("%d bytes are used after %d steps, at most %d may be", used, steps, limit)
	}
	for status, want := range map[delivery.Status]int{delivery.Pending: 100, delivery.Failed: 0} {
		shown, total, err := b.hooks.History.Deliveries(ctx, b.account, w.ID, delivery.Query{Status: status, Limit: 1})
		if err != nil || want > 0 && total != want || len(shown) != 1 ||
			status == delivery.Failed && shown[0].ID != list[499].ID {
			t.Errorf("%s: %d are left, %v", status, total, err)
		}
	}
}
