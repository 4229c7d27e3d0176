package signals

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// exits returns the events of exits in a partition.
func (b *logBench) exits(p int) []signal.Event {
	b.Helper()
	events, err := eventlog.New(b.store.Client).ReadLog(b.Context(), p, signal.Position{}, 1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	var list []signal.Event
	for _, e := range events {
		if e.Type == signal.ExitRequested {
			list = append(list, e)
		}
	}
	return list
}

// open returns the stored state of the signal.
func (u *updatedSignal) open() signal.Signal {
	u.Helper()
	list, err := u.store.OpenSignalsOf(u.Context(), u.store.Partition(u.s.Account), []signal.SignalID{u.s.ID})
	if err != nil || len(list) != 1 {
		u.Fatalf("open signals: %v, %v", list, err)
	}
	return list[0]
}

func (u *updatedSignal) requestExit() {
	u.Helper()
	if err := u.log.RequestExit(u.Context(), u.s.Account, u.s.ID); err != nil {
		u.Fatal(err)
	}
}

// TestExitIsStoredOnce: its time is that of its event, and the changes of an owner keep it, which an owner that does
// not know of it cannot make.
func TestExitIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	for name, account := range map[string]signal.AccountID{
		"an account": signal.NewAccountID(), "an account with another form of id": "acc_short",
	} {
		for _, updates := range []int{0, 1, 3, 130, signal.MaxUpdates} { // from 127 on the sequence has two bytes
			u := newUpdatedSignal(t, b, account)
			for n := 1; n <= updates; n++ {
				b.append(u.update(n))
			}
			before, known := u.open(), len(b.exits(0))
			u.requestExit()
			u.requestExit()
			all := b.exits(0)
			if len(all) != known+1 || all[known].Subject != string(u.s.ID) || all[known].Account != account {
				t.Fatalf("%s, %d updates: events %v", name, updates, all[known:])
			}
			want := before
			want.ExitRequested = all[known].Time()
			if d := cmp.Diff(want, u.open()); d != "" {
				t.Errorf("%s, %d updates (-want +got):\n%s", name, updates, d)
			}
			if got, err := b.store.SignalByID(t.Context(), account, u.s.ID, u.at, signal.Position{}); err != nil ||
				!got.ExitRequested.Equal(want.ExitRequested) {
				t.Errorf("%s: read alone: %v, %v", name, got, err)
			}

			next := u.update(updates + 1)
			unaware := next
			if _, err := b.log.Append(t.Context(), unaware); signal.CodeOf(err) != signal.CodeExitRequested {
				t.Errorf("%s: an update without knowledge of the exit: %v", name, err)
			}
			next.Signal.ExitRequested = want.ExitRequested.Add(time.Millisecond)
			if _, err := b.log.Append(t.Context(), next); signal.CodeOf(err) != signal.CodeExitRequested {
				t.Errorf("%s: an update with another exit: %v", name, err)
			}
			next.Signal.ExitRequested = want.ExitRequested
			b.append(next)
			if got := u.open(); !got.ExitRequested.Equal(want.ExitRequested) || got.Sequence != int64(updates+2) ||
				len(got.Updates) == 0 {
				t.Errorf("%s, %d updates: after one more: %+v", name, updates, got)
			}

			closed := *next.Signal
			closed.Updates, closed.Sequence = nil, closed.Sequence+1
			closed.Closing = &signal.Closing{Reason: signal.AgentExit, At: want.ExitRequested}
			forgetful := closed
			forgetful.ExitRequested = time.Time{}
			event := []signal.Event{{Type: signal.SignalClosed, Asset: closed.Asset, Data: []byte(`{}`)}}
			c := signal.Change{Account: account, Signal: &forgetful, Epoch: 7, Events: event}
			if _, err := b.log.Append(t.Context(), c); signal.CodeOf(err) != signal.CodeExitRequested {
				t.Errorf("%s: a closing without knowledge of the exit: %v", name, err)
			}
			c.Signal = &closed
			end := b.append(c)
			u.requestExit()
			if len(b.exits(0)) != known+1 {
				t.Errorf("%s: a closed signal has an exit", name)
			}
			got, err := b.store.SignalByID(t.Context(), account, u.s.ID, u.at, end)
			if err != nil || got.Closing.Reason != signal.AgentExit || len(got.Updates) == 0 {
				t.Errorf("%s: closed as %+v, %v", name, got, err)
			}
		}
	}
}
