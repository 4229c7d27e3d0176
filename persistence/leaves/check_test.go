package leaves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// check compares partition 1 with its log.
func (b *leafBench) check() *record.Checked {
	b.Helper()
	c, err := b.store.CheckLeaves(b.Context(), 1, time.Now().Add(-time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// wantFinding fails the test unless one finding has all of the given.
func wantFinding(t *testing.T, what string, c *record.Checked, account signal.AccountID, id signal.SignalID, text string) {
	t.Helper()
	for _, f := range c.Findings {
		if f.Account == account && f.Signal == id && strings.Contains(f.What, text) {
			return
		}
	}
	t.Errorf("%s: no finding of %s %s with %q in %+v", what, account, id, text, c.Findings)
}

// remove removes entries of the signal log of partition 1.
func (b *leafBench) remove(at ...signal.Position) {
	b.Helper()
	for _, p := range at {
		if n, err := b.rdb.XDel(b.Context(), b.store.SignalsKey(1), p.String()).Result(); n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// rewrite replaces the signal log of partition 1.
func (b *leafBench) rewrite(change func(i int, e *redis.XMessage)) {
	b.Helper()
	entries := b.rdb.XRange(b.Context(), b.store.SignalsKey(1), "-", "+").Val()
	b.rdb.Del(b.Context(), b.store.SignalsKey(1))
	for i := range entries {
		change(i, &entries[i])
		args := &redis.XAddArgs{Stream: b.store.SignalsKey(1), ID: entries[i].ID, Values: entries[i].Values}
		storetest.Must(b, b.rdb.XAdd(b.Context(), args).Err())
	}
}

func TestMissingEntriesAreNamed(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	mine, other, gone := storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1)
	var places []place
	for range 30 {
		places = append(places, b.create(mine, true))
		b.create(other, false)
		b.create(gone, false)
	}
	b.appendAll(b.store, 1)
	if c := b.check(); len(c.Findings) > 0 || c.Compared != 120 || c.Leaves != 120 ||
		c.Accounts[mine] != (record.Counts{Created: 30, Closed: 30}) {
		t.Fatalf("of an untouched log: %+v", c)
	}
	var erased []signal.Position // all of an account, as after its deletion
	for _, e := range b.rdb.XRange(t.Context(), b.store.SignalsKey(1), "-", "+").Val() {
		at, _ := signal.ParsePosition(e.ID)
		entries, _ := b.store.ReadRange(t.Context(), b.store.SignalsKey(1), e.ID, e.ID, 1)
		if s, _, err := b.store.Checker.entries.decode(&entries[0]); err == nil && s.Account == gone {
			erased = append(erased, at)
		}
	}
	b.remove(erased...)
	storetest.Must(t, b.store.EraseAccount(t.Context(), 1, gone, nil))
	if c := b.check(); len(c.Findings) > 0 || c.Erased != 30 {
		t.Errorf("after a deletion: %+v", c)
	}
	for _, p := range places[5:25] {
		b.remove(p.created, p.closed)
	}
	c := b.check()
	if len(c.Findings) != 40 {
		t.Errorf("%d findings, want 40: %+v", len(c.Findings), c.Findings)
	}
	for i := 5; i < 25; i++ {
		wantFinding(t, "20 losers", c, mine, "", fmt.Sprintf("created number %d of 30 of account %s is missing", i+1, mine))
		wantFinding(t, "20 losers", c, mine, "", fmt.Sprintf("closing number %d of 30 of account %s is missing", i+1, mine))
	}
	b.remove(places[0].created, places[29].created, places[29].closed)
	c = b.check()
	wantFinding(t, "a creation", c, mine, places[0].signal.ID, "created number 1 of 30")
	wantFinding(t, "the last", c, mine, "", "closing number 30 of 30")
	if len(c.Findings) != 43 {
		t.Errorf("%d findings, want 43: %+v", len(c.Findings), c.Findings)
	}
	after, err := b.store.CheckLeaves(t.Context(), 1, places[29].closed.Time().Add(time.Hour))
	if err != nil || after.Compared == 0 {
		t.Errorf("after the retention: %+v %v", after, err)
	}
}

func TestChangedEntriesAreNamed(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	mine := storetest.AccountIn(b.store, 1)
	var places []place
	for range 300 { // more than a page
		places = append(places, b.create(mine, true))
	}
	b.appendAll(b.store, 1)
	var closing map[string]any
	b.rewrite(func(i int, e *redis.XMessage) {
		switch i {
		case 3:
			closing = e.Values
		case 5:
			e.Values = closing // it has the contents of another one
		}
	})
	c := b.check()
	wantFinding(t, "a changed closing", c, mine, places[1].signal.ID, "the stored closing is not the one")
	if len(c.Findings) != 1 || c.Compared != 599 {
		t.Errorf("a changed closing: %+v", c.Findings)
	}
	var first map[string]any
	b.rewrite(func(i int, e *redis.XMessage) {
		switch i {
		case 200:
			first = e.Values
		case 202:
			e.Values = first
		}
	})
	wantFinding(t, "a creation that was changed", b.check(), mine, places[100].signal.ID, "the stored signal is not the one")
	late := b.create(mine, false)
	b.appendAll(b.store, 1)
	b.remove(late.created)
	wantFinding(t, "the newest", b.check(), mine, "", "created number 301 of 301")
	b.rdb.XDel(t.Context(), b.store.LeavesKey(1), places[10].created.String())
	c = b.check()
	wantFinding(t, "a leaf without a place", c, mine, places[10].signal.ID, "is not in the record")
	wantFinding(t, "a leaf without a place", c, "", "", "leaf 19 of the record is followed by leaf 21")
	storetest.Must(t, b.rdb.SetRange(t.Context(), b.store.TileKey(1, 0, 1), 70, "forged").Err())
	wantFinding(t, "a forged tile", b.check(), "", "", "do not belong to the head")
	storetest.Must(t, b.store.EraseAccount(t.Context(), 1, mine, nil))
	wantFinding(t, "a salt", b.check(), mine, places[1].signal.ID, "no salt")
}
