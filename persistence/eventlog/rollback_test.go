package eventlog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// These tests have a Redis that has lost its newest writes, as after a failover to a replica that
// lagged.

// rollBack returns a function that brings a key back to its present state.
func (b *tailBench) rollBack(key string) func() {
	b.Helper()
	state := b.rdb.Dump(b.Context(), key).Val()
	return func() {
		b.Helper()
		if err := b.rdb.RestoreReplace(b.Context(), key, 0, state).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// addAt appends an event with a given id, as a Redis with a slow clock would.
func (b *tailBench) addAt(p signal.Position, text string) {
	b.Helper()
	e := signal.Event{ID: signal.NewEventID(), Account: accountIn(b.store, 0), Type: signal.WebhookTest}
	header := codec.AppendEvent(nil, &e)
	add := &redis.XAddArgs{Stream: b.store.EventsKey(0), ID: p.String(),
		Values: []string{"h", string(header), "d", text}}
	if err := b.rdb.XAdd(b.Context(), add).Err(); err != nil {
		b.Fatal(err)
	}
}

// readAll has the tail read until it has seen the event of that text.
func (b *tailBench) readAll(last string) {
	b.Helper()
	for range 10 {
		b.read()
		if texts := b.texts(0); len(texts) > 0 && texts[len(texts)-1] == last {
			return
		}
	}
	b.Fatalf("seen %v, which does not end with %q", b.texts(0), last)
}

// rollbackCase has, in this order, events that stay, events that Redis loses, and new ones.
type rollbackCase struct {
	name       string
	seen, lost int
	after      []int64 // milliseconds from the first lost one
	want       int     // how many of the new events the tail reads
}

func TestTailRollsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []rollbackCase{
		{"the new ones come after the lost ones", 3, 2, []int64{10, 11}, 2},
		{"the clock is slow", 3, 2, []int64{-1, 0, 10}, 3},
		{"more than the tail remembers", 3 * recentEvents, 2, []int64{-1, 10}, 2},
		{"all is lost", 0, 3, []int64{-1, 10}, 2},
		{"nothing has come since", 3, 2, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newTailBench(t, redistest.New(t), TailOptions{}))
		})
	}
}

func (c *rollbackCase) run(b *tailBench) {
	b.Helper()
	var rolledBack []int
	b.tail.OnRollback(func(p int) { rolledBack = append(rolledBack, p) })
	b.attach()
	const at = 1_000_000 // of the first lost event, far from the present
	c.fill(b, at)
	back := b.rollBack(b.store.EventsKey(0))
	if c.seen == 0 {
		back = func() { b.rdb.Del(b.Context(), b.store.EventsKey(0)) }
	}
	for i := range c.lost {
		b.addAt(signal.Position{MS: at + int64(i)}, "lost "+strconv.Itoa(i))
	}
	b.readAll("lost " + strconv.Itoa(c.lost-1))
	back()
	var want []string
	for i, d := range c.after {
		b.addAt(signal.Position{MS: at + d, Seq: 5}, "new "+strconv.Itoa(i))
	}
	for i := range c.want {
		want = append(want, "new "+strconv.Itoa(i))
	}
	before := len(b.texts(0))
	b.tail.partitions[0].suspect = true // the connection was lost
	if len(c.after) > 0 {
		b.readAll("new " + strconv.Itoa(len(c.after)-1))
	} else {
		b.read()
	}
	if got := b.texts(0)[before:]; !slices.Equal(got, want) {
		b.Errorf("seen %v after the loss, want %v", got, want)
	}
	if len(rolledBack) != 1 || rolledBack[0] != 0 || b.gapsOf(0) != 1 {
		b.Errorf("rolled back are partitions %v, with %d gaps; want once each", rolledBack, b.gapsOf(0))
	}
	known := b.tail.partitions[0].recent
	if !slices.IsSortedFunc(known.positions, signal.Position.Compare) {
		b.Errorf("the tail remembers %v", known.positions)
	}
	b.addAt(signal.Position{MS: 2_000_000}, "later")
	b.tail.partitions[0].suspect = true
	b.readAll("later")
	if len(rolledBack) != 1 || b.gapsOf(0) != 1 {
		b.Errorf("the loss is reported again: %v, %d gaps", rolledBack, b.gapsOf(0))
	}
}

// fill appends the events that stay, before the given millisecond.
func (c *rollbackCase) fill(b *tailBench, before int64) {
	pipe := b.rdb.Pipeline()
	header := codec.AppendEvent(nil, &signal.Event{Account: accountIn(b.store, 0), Type: signal.WebhookTest})
	for i := range c.seen {
		id := fmt.Sprintf("%d-1", before-int64(c.seen-i)*10-1000)
		pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: b.store.EventsKey(0), ID: id,
			Values: []string{"h", string(header), "d", strconv.Itoa(i)}})
	}
	if _, err := pipe.Exec(b.Context()); err != nil && c.seen > 0 {
		b.Fatal(err)
	}
}

// TestTailDetectsLossOfOwnEvents: an event that was acknowledged and then lost, before the
// tail has read it, is also a loss.
func TestTailDetectsLossOfOwnEvents(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{})
	losses := 0
	b.tail.OnRollback(func(int) { losses++ })
	account := accountIn(b.store, 0)
	seen := b.append(noted(account, "seen"))
	eventually(t, func() bool { return b.rdb.Time(t.Context()).Val().UnixMilli() > seen.MS })
	b.attach()
	back := b.rollBack(b.store.EventsKey(0))
	b.append(noted(account, "lost"))
	back()
	b.addAt(seen.Plus(1), "next") // the clock is slow
	b.tail.partitions[0].suspect = true
	b.readAll("next")
	if losses != 1 || b.gapsOf(0) != 1 {
		t.Errorf("%d losses, %d gaps, want one of each", losses, b.gapsOf(0))
	}
	b.addAt(seen.Plus(2), "more")
	b.tail.partitions[0].suspect = true
	b.readAll("more")
	if losses != 1 {
		t.Errorf("the loss is reported %d times before the process has appended again", losses)
	}
	b.tail.partitions[0].suspect = true
	b.append(noted(account, "later"))
	b.readAll("later")
	if losses != 1 {
		t.Errorf("the loss is reported %d times", losses)
	}
}

// TestTailRollsBackBeforeAttachment: the lost events are older than the tail, so that it remembers
// none before them.
func TestTailRollsBackBeforeAttachment(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{})
	losses := 0
	b.tail.OnRollback(func(int) { losses++ })
	b.addAt(signal.Position{MS: 1000}, "stays")
	back := b.rollBack(b.store.EventsKey(0))
	b.addAt(signal.Position{MS: 3000}, "lost")
	b.attach()
	back()
	b.addAt(signal.Position{MS: 2000}, "skipped") // subscribers read it because of the gap
	for _, text := range []string{"next", "later"} {
		b.tail.partitions[0].suspect = true
		b.read()
		b.addAt(signal.Position{MS: 2500 + int64(len(text))}, text)
		b.readAll(text)
	}
	if losses != 1 || b.gapsOf(0) != 1 {
		t.Errorf("%d losses, %d gaps, want one of each", losses, b.gapsOf(0))
	}
}

// TestRemovedEventsAreNotLost: no owner has to give up its partition because of trimming or erasing.
func TestRemovedEventsAreNotLost(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(b *tailBench, seen []signal.Position){
		"trimmed before the cursor": func(b *tailBench, _ []signal.Position) {
			b.rdb.XTrimMaxLen(b.Context(), b.store.EventsKey(0), 1)
		},
		"all trimmed": func(b *tailBench, _ []signal.Position) {
			b.rdb.XTrimMaxLen(b.Context(), b.store.EventsKey(0), 0)
		},
		"the last is erased": func(b *tailBench, seen []signal.Position) {
			b.rdb.XDel(b.Context(), b.store.EventsKey(0), seen[len(seen)-1].String())
		},
		"all are erased": func(b *tailBench, seen []signal.Position) {
			for _, p := range seen {
				b.rdb.XDel(b.Context(), b.store.EventsKey(0), p.String())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTailBench(t, redistest.New(t), TailOptions{})
			b.tail.OnRollback(func(int) { t.Error("a loss is reported") })
			b.attach()
			account := accountIn(b.store, 0)
			var seen []signal.Position
			for i := range 5 {
				seen = append(seen, b.append(noted(account, strconv.Itoa(i))))
			}
			b.readAll("4")
			b.append(noted(account, "unread"))
			remove(b, seen)
			b.tail.partitions[0].suspect = true
			b.append(noted(account, "next"))
			b.readAll("next")
		})
	}
}

// TestTailReportsOvertaking: trimming removes entries after the cursor of a tail that lags,
// although all its reads succeed.
func TestTailReportsOvertaking(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{Count: 3})
	b.attach()
	account := accountIn(b.store, 0)
	for i := range 12 {
		b.append(noted(account, strconv.Itoa(i)))
	}
	b.read()
	if n := b.gapsOf(0); n != 0 {
		t.Fatalf("%d gaps before anything was removed", n)
	}
	b.rdb.XTrimMaxLen(context.Background(), b.store.EventsKey(0), 4)
	b.read()
	b.read()
	b.wantTexts(0, "0", "1", "2", "8", "9", "10", "11")
	if n := b.gapsOf(0); n != 1 {
		t.Errorf("%d gaps, want 1: the events 3 to 7 were never seen", n)
	}
}

func TestRecentPositionsAreBounded(t *testing.T) {
	t.Parallel()
	r := recent{base: signal.Position{MS: 10}}
	for i := range 5 * recentEvents {
		r.add([]redisclient.Entry{{Position: signal.Position{MS: int64(11 + i)}}})
	}
	last := int64(10 + 5*recentEvents)
	n := len(r.positions)
	if n < recentEvents || n > 2*recentEvents || r.positions[0].MS != r.base.MS+1 || r.positions[n-1].MS != last {
		t.Errorf("%d positions after %v", n, r.base)
	}
	if r.has(signal.Position{MS: last + 1}) || !r.has(signal.Position{MS: last}) || r.has(r.base) {
		t.Error("it remembers other events than the last ones")
	}
	r.cut(signal.Position{MS: last - 5})
	if r.has(signal.Position{MS: last - 4}) || !r.has(signal.Position{MS: last - 5}) {
		t.Error("it is not cut after the position")
	}
	r.cut(signal.Position{MS: 3})
	if len(r.positions) != 0 || r.base.MS != 3 {
		t.Errorf("cut before all: %v after %v", r.positions, r.base)
	}
}

// TestTailReportsWhatWasTrimmedDuringAPause of the process, after which its next read succeeds.
func TestTailReportsWhatWasTrimmedDuringAPause(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{})
	b.attach()
	account := accountIn(b.store, 0)
	b.append(noted(account, "seen"))
	b.readAll("seen")
	b.append(noted(account, "trimmed"))
	b.append(noted(account, "next"))
	b.rdb.XTrimMaxLen(t.Context(), b.store.EventsKey(0), 1)
	part := b.tail.partitions[0]
	part.readAt = part.readAt.Add(-time.Hour)
	b.readAll("next")
	b.wantTexts(0, "seen", "next")
	if n := b.gapsOf(0); n != 1 {
		t.Errorf("%d gaps, want 1", n)
	}
}
