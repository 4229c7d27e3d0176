package leaves

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// What is shown to everyone ends where the checkpoint ends.
func TestSignedUpTo(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	mine, other := storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1)
	upTo := func(at time.Time) signal.Position {
		t.Helper()
		c, err := b.store.Checkpoint(t.Context())
		storetest.Must(t, err)
		p, err := b.store.SignedUpTo(t.Context(), 1, c.Logs[1], at)
		storetest.Must(t, err)
		return p
	}
	b.sign()
	// The salt of an account is made with its first leaf: until then its signal is there, and not signed.
	fresh := storetest.AccountIn(b.store, 0)
	if _, err := b.store.OpenLeaf(t.Context(), 0, fresh, b.create(fresh, false).created, tlog.Tree{}); !errors.Is(err,
		ErrNotSigned) {
		t.Errorf("the first signal of an account: %v", err)
	}
	if got := upTo(time.Now()); !got.IsZero() {
		t.Errorf("an empty log is signed up to %v", got)
	}
	first, last := b.create(mine, true), b.create(other, true)
	b.appendAll(b.store, 1)
	c := b.sign()
	if got := upTo(time.Now().Add(time.Hour)); got != last.closed {
		t.Errorf("the log is signed up to %v, want %v", got, last.closed)
	}
	// What follows at once, with a leaf and without one, is not in it.
	b.create(mine, true)
	b.appendAll(b.store, 1)
	b.create(mine, true)
	for _, at := range []time.Time{time.Now().Add(time.Hour), last.closed.Time()} {
		if got := upTo(at); got.Compare(last.closed) > 0 {
			t.Errorf("with the checkpoint of %v it is signed up to %v, behind %v", at, got, last.closed)
		}
	}
	if got := upTo(first.created.Time().Add(-time.Hour)); !got.IsZero() {
		t.Errorf("with a checkpoint before the first leaf: %v", got)
	}

	late := b.create(mine, false)
	leaves, err := b.store.OpenLeaves(t.Context(), 1, mine,
		[]signal.Position{first.created, first.closed, last.created, late.created, {MS: 1}}, c.Logs[1])
	storetest.Must(t, err)
	for i, at := range []signal.Position{first.created, first.closed} {
		want, err := b.store.OpenLeaf(t.Context(), 1, mine, at, c.Logs[1])
		storetest.Must(t, err)
		if leaves[i] == nil || leaves[i].Text != want.Text {
			t.Errorf("leaf %d is %+v, want %+v", i, leaves[i], want)
		}
		if _, err := c.Holds(leaves[i]); err != nil {
			t.Errorf("leaf %d: %v", i, err)
		}
	}
	for i, what := range []string{"of another account", "that is not signed", "that there is not"} {
		if leaves[2+i] != nil {
			t.Errorf("a leaf %s: %+v", what, leaves[2+i])
		}
	}
	a, err := b.store.Account(t.Context(), 1, mine)
	storetest.Must(t, err)
	if a.Counts.Created != 2 || a.Counts.Closed != 2 || string(a.Salt) != string(leaves[0].Salt) {
		t.Errorf("the account has %+v", a)
	}
	if _, err := b.store.Account(t.Context(), 0, mine); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("an account without leaves: %v", err)
	}
}
