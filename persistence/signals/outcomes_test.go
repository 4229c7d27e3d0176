package signals

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func (b *logBench) create(account signal.AccountID, i int, change ...func(*signal.Signal)) *signal.Signal {
	b.Helper()
	s := storetest.Signal(account)
	s.Asset, s.Risk, s.Confidence, s.FirstConfidence, s.Sequence = fmt.Sprintf("A%d", i%3), signal.LowRisk, .41, .41, 1
	s.Levels, s.Metadata = &signal.Levels{Entry: 100, Stop: 99, Target: 101.5}, fmt.Appendf(nil, `{"number":%d}`, i)
	for _, f := range change {
		f(s)
	}
	at := b.append(storetest.Created(s))
	s.CreatedAt, s.UpdatedAt = at.Time(), at.Time()
	return s
}

func (b *logBench) close(s *signal.Signal) *signal.Signal {
	b.Helper()
	exit, percent, absolute := 101.5, 1.5, 1.5
	closed := *s
	closed.MFE, closed.MAE, closed.Sequence, closed.Metadata = 1.5, -.25, 2, nil
	closed.Closing = &signal.Closing{
		Reason: signal.TakeProfit, At: s.CreatedAt.Add(time.Minute), DurationMinutes: 1,
		ExitPrice: &exit, PnLPercent: &percent, PnLAbsolute: &absolute,
	}
	b.change(&closed, signal.SignalClosed)
	return &closed
}

// TestMetadataOfAccountsAgents: what their skill is measured by is read with the records, and that of others is not.
func TestMetadataOfAccountsAgents(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	mine := signal.NewAccountID()
	b.close(b.create(mine, 0))
	own := b.create(mine, 1, func(s *signal.Signal) {
		s.Agent, s.Reach = "my_agent", &signal.Reach{Stop: 2, Bars: 24}
	})
	exit := *own
	exit.Closing, exit.Sequence = &signal.Closing{Reason: signal.AgentExit, At: own.CreatedAt}, 2
	exit.Metadata = []byte(`{"life_left":0.5}`)
	b.change(&exit, signal.SignalClosed)
	var got []string
	_, err := b.store.EachRecord(t.Context(), mine, signal.Position{}, func(_ signal.Position, s *signal.Signal) {
		got = append(got, string(s.Metadata))
	})
	if d := cmp.Diff([]string{"", "", `{"number":1}`, `{"life_left":0.5}`}, got); d != "" || err != nil {
		t.Errorf("metadata (-want +got): %v\n%s", err, d)
	}
}

func TestRecordsOfAnAccountAreReadOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	mine, other := signal.NewAccountID(), signal.NewAccountID()
	first := b.create(mine, 0)
	b.create(other, 1)
	second := b.create(mine, 2)
	b.close(first)
	var got []string
	note := func(_ signal.Position, s *signal.Signal) {
		what := "created"
		if s.Closing != nil {
			what = fmt.Sprintf("closed %s %v %v %v", s.Closing.Reason, *s.Closing.ExitPrice, s.MFE, s.MAE)
		} else if s.Levels == nil || s.FirstConfidence != .41 || s.Risk != signal.LowRisk {
			t.Errorf("creation is %+v", s)
		}
		got = append(got, fmt.Sprintf("%s %s", s.ID, what))
	}
	upTo, err := b.store.EachRecord(t.Context(), mine, signal.Position{}, note)
	const closed = " closed take_profit 101.5 1.5 -0.25"
	want := []string{string(first.ID) + " created", string(second.ID) + " created", string(first.ID) + closed}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("records (-want +got): %v\n%s", err, d)
	}
	got = nil
	b.close(second)
	later, err := b.store.EachRecord(t.Context(), mine, upTo, note)
	if d := cmp.Diff([]string{string(second.ID) + closed}, got); d != "" || err != nil {
		t.Errorf("records behind %v (-want +got): %v\n%s", upTo, err, d)
	}
	got = nil
	if again, err := b.store.EachRecord(t.Context(), mine, later, note); again != later || len(got) != 0 || err != nil {
		t.Errorf("nothing new: %v, want %v; %v, %v", again, later, got, err)
	}
	n, err := b.store.EachRecord(t.Context(), signal.NewAccountID(), signal.Position{}, note)
	if len(got) != 0 || err != nil || n != later {
		t.Errorf("of another account: %v %v %v", n, got, err)
	}
}

func TestRecordsOfManyPagesAreReadOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	mine := signal.NewAccountID()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range eventlog.ScanEntries / 4 {
				b.close(b.create(mine, i))
			}
		})
	}
	wg.Wait()
	seen := map[signal.SignalID]int{}
	closed := 0
	if _, err := b.store.EachRecord(t.Context(), mine, signal.Position{}, func(_ signal.Position, s *signal.Signal) {
		if seen[s.ID]++; s.Closing != nil {
			if closed++; seen[s.ID] != 2 {
				t.Errorf("%s is closed before it is created", s.ID)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if want := 8 * (eventlog.ScanEntries / 4); len(seen) != want || closed != want {
		t.Errorf("%d signals, %d of them closed, want %d", len(seen), closed, want)
	}
}

func TestEverySignalIsReadWithItsEnd(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	mine, other := signal.NewAccountID(), signal.NewAccountID()
	first, second := b.create(mine, 0), b.create(other, 1)
	b.close(second)
	got := map[signal.SignalID]*signal.Signal{}
	var order []signal.SignalID
	if err := b.store.EachSignal(t.Context(), 0, func(s *signal.Signal) error {
		got[s.ID] = s
		order = append(order, s.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]signal.SignalID{second.ID, first.ID}, order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if s := got[first.ID]; s.Closing != nil || string(s.Metadata) != `{"number":0}` || s.Account != mine {
		t.Errorf("open: %+v", s)
	}
	s := got[second.ID]
	if s.Closing == nil || *s.Closing.PnLPercent != 1.5 || s.Closing.DurationMinutes != 1 ||
		string(s.Metadata) != `{"number":1}` {
		t.Errorf("closed: %+v", s)
	}
}
