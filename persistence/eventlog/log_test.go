package eventlog

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAppendPositionWithoutEvents(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	before := time.Now().Add(-time.Second)
	reply := &signal.Reply{ReplyKey: signal.ReplyKey{Key: "k"}, Status: 200, Body: []byte("{}")}
	at := b.append(signal.Change{Account: account, Reply: reply})
	if at.Time().Before(before) || at.Time().After(time.Now().Add(time.Second)) {
		t.Errorf("a change without events is at %v", at)
	}
	if got := b.eventsOf(account); len(got) != 0 {
		t.Errorf("event log has %v", got)
	}
}

// TestOwnerChangeIsStoredOnce: a change that is repeated, because its outcome was not known, is
// refused, and the next one is not.
func TestOwnerChangeIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	b.rdb.Set(t.Context(), b.store.EpochKey(b.store.Partition(account)), 7, 0)
	s := logSignal(account)
	b.append(created(s))
	before := len(b.eventsOf(account))
	apply := func(s signal.Signal, t signal.EventType) error {
		c := signal.Change{Account: account, Signal: &s, Epoch: 7, Events: []signal.Event{{Type: t}}}
		_, err := b.log.Append(b.Context(), c)
		return err
	}
	for i, c := range []struct {
		sequence int64
		typ      signal.EventType
		want     error
		stored   int64 // of a refusal
	}{
		{3, signal.SignalUpdated, errChanged, 1}, {2, signal.SignalUpdated, nil, 0},
		{2, signal.SignalUpdated, errChanged, 2}, {2, signal.SignalClosed, errChanged, 2},
		{3, signal.SignalUpdated, nil, 0}, {200, signal.SignalClosed, errChanged, 3},
		{4, signal.SignalClosed, nil, 0}, {4, signal.SignalClosed, ErrNotOpen, 0},
	} {
		next := *s
		next.Sequence = c.sequence
		if c.typ == signal.SignalClosed {
			next.Closing = &signal.Closing{Reason: signal.Expired, At: time.Now()}
		}
		err := apply(next, c.typ)
		if signal.CodeOf(err) != signal.CodeOf(c.want) {
			t.Errorf("change %d: %v, want %v", i, err, c.want)
		}
		if stored, known := signal.StoredSequence(err); known != (errors.Is(c.want, errChanged)) || stored != c.stored {
			t.Errorf("change %d: the refusal has the sequence %d, want %d", i, stored, c.stored)
		}
	}
	b.wantEvents(account, before+3)
	long := logSignal(account)
	long.Sequence = 300
	b.append(created(long))
	if stored, _ := signal.StoredSequence(apply(*long, signal.SignalUpdated)); stored != 300 {
		t.Errorf("the refusal has the sequence %d, want 300", stored)
	}
}

func TestAppendInOrder(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			last := signal.Position{}
			for k := range 30 {
				p, err := b.log.Append(t.Context(), noted(account, fmt.Sprintf("%d %d", i, k)))
				if err != nil || p.Compare(last) <= 0 {
					t.Errorf("Append = %v, %v after %v", p, err, last)
					return
				}
				last = p
			}
		})
	}
	wg.Wait()
	var next [32]int
	for _, e := range b.eventsOf(account) {
		var i, k int
		fmt.Sscan(string(e.Data), &i, &k)
		if k != next[i] {
			t.Fatalf("event %d of caller %d stands in the place of %d", k, i, next[i])
		}
		next[i]++
	}
	for i, n := range next {
		if n != 30 {
			t.Errorf("caller %d has %d events, want 30", i, n)
		}
	}
}

// Without an error the caller may write to the memory of its change.
func TestMemoryOfAppendedChangesIsFree(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	const callers, changes = 16, 50
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			c := noted(account, "")
			for k := range changes {
				c.Events[0].ID = signal.NewEventID()
				c.Events[0].Data = fmt.Appendf(c.Events[0].Data[:0], "%d %d", i, k)
				if _, err := b.log.Append(t.Context(), c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	got := map[string]int{}
	for _, e := range b.eventsOf(account) {
		got[string(e.Data)]++
	}
	for i := range callers {
		for k := range changes {
			if text := fmt.Sprintf("%d %d", i, k); got[text] != 1 {
				t.Errorf("%q is stored %d times", text, got[text])
			}
		}
	}
}

func TestEndedMember(t *testing.T) {
	t.Parallel()
	c := signal.Change{Account: "acc_1", Ended: "run_1", Events: []signal.Event{
		{Type: signal.SignalCreated}, {Type: signal.AgentCompleted, Run: "run_1", Agent: "my_agent"}}}
	if got := endedMember(&c); got != "acc_1 run_1 my_agent" {
		t.Errorf("the member is %q", got)
	}
	c.Events[1].Run = "run_2"
	if o := changeOperation(redisclient.NewKeys(1), 0, &c, time.Now()); o.Invalid == nil {
		t.Error("the end of a run without an event of it is accepted")
	}
}
