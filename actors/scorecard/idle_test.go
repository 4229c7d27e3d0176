package scorecard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestAccountsWithoutUseAreDropped: they are read again, also before a trim has freed them, since losses
// may have been missed.
func TestAccountsWithoutUseAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := closedSignals("acc_0", 6)
		c := New(r, Options{Now: func() time.Time { return morning.Add(time.Hour) }}) // with the default of Idle
		ask := func() {
			t.Helper()
			if card, err := c.Card(t.Context(), Query{Account: "acc_0"}); err != nil || card.Statistics.Count != 6 {
				t.Fatalf("%d signals, %v; want 6", card.Statistics.Count, err)
			}
		}
		whole := func() (n int) {
			for _, from := range r.reads {
				if from == 0 {
					n++
				}
			}
			return n
		}
		for range 3 {
			ask()
			time.Sleep(9 * time.Minute)
			c.Trim()
		}
		if whole() != 1 {
			t.Errorf("%d readings of the whole log of an account in use, want 1", whole())
		}
		time.Sleep(time.Minute)
		ask()
		if whole() != 2 {
			t.Errorf("%d readings after a time without use, want 2", whole())
		}
		time.Sleep(10 * time.Minute)
		if c.Trim(); len(c.accounts) != 0 {
			t.Error("an account without use is kept")
		}
	})
}

func TestCardsNeedTheTail(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_0", 1)
	c := New(r, Options{Follow: func(context.Context, signal.AccountID) error {
		return signal.Unavailable(errors.New("no answer"))
	}})
	if _, err := c.Card(t.Context(), Query{Account: "acc_0"}); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("a card without the tail: %v", err)
	}
}
