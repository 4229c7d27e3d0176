package signals

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestDueMember(t *testing.T) {
	t.Parallel()
	want := signal.RunDue{Account: signal.NewAccountID(), Run: signal.NewRunID(), Agent: "trading"}
	got, err := decodeDue(eventlog.DueMember(want.Account, want.Run, want.Agent))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	for _, bad := range []string{"", "acc", "acc run", "acc  agent", " run agent", "acc run ", "acc run agent more"} {
		if got, err := decodeDue(bad); err == nil {
			t.Errorf("decodeDue(%q): %+v, want an error", bad, got)
		}
	}
}

func FuzzDecodeDue(f *testing.F) {
	f.Add("acc_1 run_1 trading")
	f.Add("a  b")
	f.Fuzz(func(t *testing.T, member string) {
		due, err := decodeDue(member)
		if err == nil && eventlog.DueMember(due.Account, due.Run, due.Agent) != member {
			t.Errorf("%q is read as %+v", member, due)
		}
	})
}

func TestOverdueRuns(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	s, ctx := b.store, t.Context()
	account := storetest.AccountIn(s, 2)
	at := time.UnixMilli(1_800_000_000_000).UTC()
	var runs []signal.RunDue
	for i := range 4 {
		due := signal.RunDue{Run: signal.NewRunID(), Agent: "trading", Account: account}
		due.At = at.Add(time.Duration(i) * time.Second)
		runs = append(runs, due)
		started := signal.Event{Type: signal.AgentStarted, Run: due.Run, Agent: due.Agent}
		b.append(signal.Change{Account: account, Due: &due, Events: []signal.Event{started}})
	}
	s.RDB.ZAdd(ctx, s.RunsDueKey(2), storetest.DueAt(at.Add(-time.Hour), "damaged"))
	end := signal.Change{Account: account, Ended: runs[1].Run,
		Events: []signal.Event{{Type: signal.AgentCompleted, Run: runs[1].Run, Agent: "trading"}}}
	b.append(end)
	got, err := s.OverdueRuns(ctx, 2, at.Add(3*time.Second), 10)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]signal.RunDue{runs[0], runs[2]}, got); d != "" {
		t.Errorf("overdue (-want +got):\n%s", d)
	}
	if got, err := s.OverdueRuns(ctx, 2, at.Add(time.Hour), 2); len(got) != 2 || err != nil {
		t.Errorf("with a limit of 2: %d runs, %v", len(got), err)
	}
	if n := s.RDB.ZCard(ctx, s.RunsDueKey(2)).Val(); n != 4 {
		t.Errorf("%d entries are left, want 4: the ended one is removed, the damaged one waits", n)
	}
	storetest.WantPostponed(t, s.RDB, s.RunsDueKey(2), "damaged", at.Add(3*time.Second))
	_, err = b.log.Append(ctx, end)
	storetest.WantKind(t, "a second end of the run", err, signal.KindConflict)
}
