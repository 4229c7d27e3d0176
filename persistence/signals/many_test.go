package signals

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// trips counts the round trips of a client.
type trips struct{ n int }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.n++
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.n++
		return next(ctx, cmds)
	}
}

// TestSignalsAtAreAsReadOneByOne, in one round trip.
func TestSignalsAtAreAsReadOneByOne(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	account := storetest.AccountIn(b.store, 0)
	var at []signal.Location
	for i := range 40 {
		s := storetest.Signal(account)
		if i%5 == 0 {
			s.Levels = nil
		}
		l := signal.Location{ID: s.ID, Created: b.append(storetest.Created(s))}
		changed := *s
		changed.Sequence, changed.Confidence, changed.Metadata = 2, .5, nil
		switch i % 4 {
		case 0:
			if i%8 == 0 {
				if err := b.log.RequestExit(t.Context(), account, s.ID); err != nil {
					t.Fatal(err)
				}
			}
		case 1:
			b.change(&changed, signal.SignalUpdated)
		case 2, 3:
			changed.Closing = &signal.Closing{Reason: signal.Expired}
			changed.Metadata = []byte(`{"stale_exit":true}`)
			if closed := b.change(&changed, signal.SignalClosed); i%4 == 2 {
				l.Closed = closed // otherwise the catalogue does not know of it yet
			}
		}
		at = append(at, l)
	}
	var want []*signal.Signal
	for i, l := range at {
		s, err := b.store.SignalByID(t.Context(), account, l.ID, l.Created, l.Closed)
		if err != nil {
			t.Fatal(err)
		}
		if asked := !s.ExitRequested.IsZero(); asked != (i%8 == 0) {
			t.Errorf("the exit of signal %d was requested: %t", i, asked)
		}
		want = append(want, s)
	}
	got, err := b.store.SignalsAt(t.Context(), account, at)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-one by one +together):\n%s", d)
	}
	var settled []signal.Location
	for i, l := range at {
		if i%4 != 3 {
			settled = append(settled, l)
		}
	}
	counted := &trips{}
	b.store.RDB.AddHook(counted)
	if _, err := b.store.SignalsAt(t.Context(), account, settled); err != nil || counted.n != 1 {
		t.Errorf("%d round trips, %v", counted.n, err)
	}
}

func TestSignalsAtWithoutThoseThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	account, other := storetest.AccountIn(b.store, 0), storetest.AccountIn(b.store, 0)
	var at []signal.Location
	for range 5 {
		s := storetest.Signal(account)
		at = append(at, signal.Location{ID: s.ID, Created: b.append(storetest.Created(s))})
	}
	kept := at[4].ID
	at[0].ID = signal.NewSignalID()                                                  // another signal is there
	at[1].Closed = at[1].Created.Plus(1)                                             // nothing is there
	b.rdb.HSet(t.Context(), b.store.OpenKey(0), codec.OpenField(at[2].ID), "broken") // unreadable
	b.rdb.HDel(t.Context(), b.store.OpenKey(0), codec.OpenField(at[3].ID))           // erased, never closed
	got, err := b.store.SignalsAt(t.Context(), account, at)
	if err != nil || len(got) != 1 || got[0].ID != kept {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := b.store.SignalsAt(t.Context(), other, at); err != nil || len(got) != 0 {
		t.Errorf("of another account: %v, %v", got, err)
	}
	if got, err := b.store.SignalsAt(t.Context(), account, nil); err != nil || len(got) != 0 {
		t.Errorf("of no location: %v, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.store.SignalsAt(ended, account, at)
	storetest.WantKind(t, "without an answer", err, signal.KindUnavailable)
}
