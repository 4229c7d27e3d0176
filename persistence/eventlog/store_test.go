package eventlog

import (
	"strconv"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestRetains(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	ctx := t.Context()
	account, other := accountIn(b.store, 0), accountIn(b.store, 0)
	var at, others []signal.Position
	for range 1000 {
		at = append(at, b.append(noted(account, "")))
		others = append(others, b.append(noted(other, "")))
	}
	check := func(name string, p int, after signal.Position, want bool) {
		t.Helper()
		if got, _, err := b.store.Retains(ctx, p, after); got != want || err != nil {
			t.Errorf("%s: retains = %v, %v; want %v", name, got, err, want)
		}
	}
	check("an empty log", 1, signal.Position{}, true)
	check("from the start", 0, signal.Position{}, true)
	check("from the middle", 0, at[500], true)
	check("from the end", 0, others[999], true)
	check("from the future", 0, signal.Position{MS: at[999].MS + 1e6}, false)
	check("a position that never was", 0, signal.Position{MS: at[0].MS - 1e6}, false)
	// Everything after the first entry that trimming has left is there.
	if err := b.rdb.XTrimMinID(ctx, b.store.EventsKey(0), at[600].String()).Err(); err != nil {
		t.Fatal(err)
	}
	check("before what is trimmed", 0, at[500], false)
	check("the first that is left", 0, at[600], true)
	check("from the start of a trimmed log", 0, signal.Position{}, false)
	// The entries of a deleted account are erased: no other account has lost any.
	b.rdb.XDel(ctx, b.store.EventsKey(0), others[750].String())
	check("before a removed entry", 0, at[700], true)
	check("at a removed entry", 0, others[750], true)
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	a, other := accountIn(b.store, 0), accountIn(b.store, 0)
	for i := range 30 {
		b.append(noted([]signal.AccountID{a, other}[i%2], strconv.Itoa(i)))
	}
	after, n := signal.Position{}, 0
	for {
		events, err := b.store.ReadLog(t.Context(), 0, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if string(e.Data) != strconv.Itoa(n) {
				t.Fatalf("event %d is %s", n, e.Data)
			}
			n++
		}
		after = events[len(events)-1].Position
	}
	if n != 30 {
		t.Errorf("%d events, want 30", n)
	}
}
