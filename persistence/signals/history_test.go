package signals

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// updatedSignal is a signal that an owner of epoch 7 updates.
type updatedSignal struct {
	*logBench
	s  signal.Signal
	at signal.Position
}

func newUpdatedSignal(t *testing.T, b *logBench, account signal.AccountID) *updatedSignal {
	t.Helper()
	b.rdb.Set(t.Context(), b.store.EpochKey(b.store.Partition(account)), 7, 0)
	s := storetest.Signal(account)
	at := b.append(storetest.Created(s))
	u := &updatedSignal{b, *s, at}
	u.s.CreatedAt, u.s.ExpiresAt = at.Time(), at.Time().Add(24*time.Hour)
	u.s.Metadata, u.s.Sequence = nil, 1
	return u
}

// update returns the change that makes the n-th update, from 1.
func (u *updatedSignal) update(n int) signal.Change {
	s := u.s
	s.Sequence, s.Confidence, s.Updates = int64(n+1), float64(n)/1e4, u.updates(n, n+1)
	event := signal.Event{Type: signal.SignalUpdated, Asset: s.Asset, Data: []byte(`{}`)}
	return signal.Change{Account: s.Account, Signal: &s, Epoch: 7, Events: []signal.Event{event}}
}

// updates returns the updates from a number to before another one.
func (u *updatedSignal) updates(from, to int) []signal.Update {
	var list []signal.Update
	for n := from; n < to; n++ {
		list = append(list, signal.Update{
			At: u.at.Time().Add(time.Duration(n) * time.Minute), Confidence: float64(n) / 1e4, Price: 100 + float64(n)/8,
		})
	}
	return list
}

func (u *updatedSignal) close(sequence int) signal.Position {
	s := u.s
	s.Sequence, s.Closing = int64(sequence), &signal.Closing{Reason: signal.Expired, At: u.at.Time()}
	return u.change(&s, signal.SignalClosed)
}

func (u *updatedSignal) wantUpdates(what string, closed signal.Position, want []signal.Update) {
	u.Helper()
	got, err := u.store.SignalByID(u.Context(), u.s.Account, u.s.ID, u.at, closed)
	if err != nil {
		u.Fatalf("%s: %v", what, err)
	}
	if d := cmp.Diff(want, got.Updates); d != "" {
		u.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestUpdatesAreKeptOnce: an owner that does not know how its last change ended tries it again,
// and so does a new owner of the same epoch.
func TestUpdatesAreKeptOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	for name, account := range map[string]signal.AccountID{
		"an account": signal.NewAccountID(), "an account with another form of id": "acc_short",
	} {
		u := newUpdatedSignal(t, b, account)
		u.wantUpdates(name+" at creation", signal.Position{}, nil)
		for n := 1; n <= 3; n++ {
			b.append(u.update(n))
			_, err := b.log.Append(t.Context(), u.update(n))
			if stored, ok := signal.StoredSequence(err); !ok || stored != int64(n+1) {
				t.Errorf("%s: update %d again: %v", name, n, err)
			}
			u.wantUpdates(name, signal.Position{}, u.updates(1, n+1))
		}
		foreign := u.update(4)
		foreign.Epoch = 6
		if _, err := b.log.Append(t.Context(), foreign); signal.CodeOf(err) != signal.CodeNotOwner {
			t.Errorf("%s: update by a former owner: %v", name, err)
		}
		end := u.close(5)
		u.wantUpdates(name+" after the end", end, u.updates(1, 4))
		u.wantUpdates(name+" after the end, as if it were open", signal.Position{}, u.updates(1, 4))
	}
}

// TestOldUpdatesAreThinned also passes the sequences that take two bytes.
func TestOldUpdatesAreThinned(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	u := newUpdatedSignal(t, b, signal.NewAccountID())
	for n := 1; n <= signal.MaxUpdates; n++ {
		b.append(u.update(n))
	}
	u.wantUpdates("the most", signal.Position{}, u.updates(1, signal.MaxUpdates+1))
	b.append(u.update(signal.MaxUpdates + 1))
	var want []signal.Update
	for n := 1; n <= signal.MaxUpdates+1; n += 2 {
		want = append(want, u.updates(n, n+1)...)
	}
	u.wantUpdates("one more", signal.Position{}, want)
	b.append(u.update(signal.MaxUpdates + 2))
	want = append(want, u.updates(signal.MaxUpdates+2, signal.MaxUpdates+3)...)
	u.wantUpdates("two more", signal.Position{}, want)
	u.wantUpdates("closed", u.close(signal.MaxUpdates+4), want)
}

// TestUpdatesOfAnEarlierBuild: what it has stored has none, and its record is continued.
func TestUpdatesOfAnEarlierBuild(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	u := newUpdatedSignal(t, b, signal.NewAccountID())
	before := u.update(1)
	before.Signal.Updates = nil
	before.Signal.Initial = nil
	b.append(before)
	u.wantUpdates("by an earlier build", signal.Position{}, nil)
	b.append(u.update(2))
	u.wantUpdates("by both", signal.Position{}, u.updates(2, 3))

	old := newUpdatedSignal(t, b, u.s.Account)
	old.wantUpdates("closed without updates", old.close(2), nil)
}

// TestBytesOfUpdates: a signal without updates takes none.
func TestBytesOfUpdates(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	u := newUpdatedSignal(t, b, signal.NewAccountID())
	value := func() string {
		return b.rdb.HGet(t.Context(), b.store.OpenKey(0), codec.OpenField(u.s.ID)).Val()
	}
	stamps := u.at.String() + " " + u.at.String() + " "
	if want := string(codec.AppendOpen([]byte(stamps), &u.s, time.Time{})); value() != want {
		t.Errorf("a new signal is stored as %q, want %q", value(), want)
	}
	first := 0
	for n := 1; n <= 10; n++ {
		b.append(u.update(n))
		body := strings.SplitN(value(), " ", 3)[2]
		if first == 0 {
			first = len(body)
		}
		if grown := len(body) - first; grown != 15*(n-1) {
			t.Errorf("update %d: %d bytes more than the first, want 15 each", n, grown)
		}
	}
	two := u.update(11)
	two.Signal.Updates = u.updates(10, 12)
	if _, err := b.log.Append(t.Context(), two); err == nil {
		t.Errorf("a change with two updates: %v", err)
	}
}
