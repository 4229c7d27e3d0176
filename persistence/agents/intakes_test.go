package agents

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func intakeOf(digest string) signal.Intake {
	return signal.Intake{ID: signal.NewIntakeID(), Digest: digest, CreatedAt: time.UnixMilli(1795253400123).UTC()}
}

// newAccount makes an account with the agent mine.
func newAccount(t *testing.T, s *Store) signal.AccountID {
	t.Helper()
	account := signal.NewAccountID()
	s.c.RDB.HSet(t.Context(), s.c.AccountKey(account), "v", "1")
	_, err := s.Add(t.Context(), agentOf(account, "mine"))
	storetest.Must(t, err)
	return account
}

func isNotFound(err error) bool { return signal.KindOf(err) == signal.KindNotFound }

// keysLeft returns the keys of intakes.
func keysLeft(t *testing.T, s *Store) (left []string) {
	t.Helper()
	for _, pattern := range []string{"*intake:*", "*alerts:*"} {
		all := s.c.RDB.Scan(t.Context(), 0, pattern, 1000).Iterator()
		for all.Next(t.Context()) {
			left = append(left, all.Val())
		}
		storetest.Must(t, all.Err())
	}
	return left
}

// TestIntakesEnd with their revocation, their agent and their account, and nothing of them is left.
func TestIntakesEnd(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx, account := t.Context(), newAccount(t, s)
	first, second := intakeOf("d1"), intakeOf("d2")
	storetest.Must(t, s.AddIntake(ctx, account, "mine", first))
	storetest.Must(t, s.AddIntake(ctx, account, "mine", second))
	if err := s.AddIntake(ctx, account, "none", intakeOf("d3")); !isNotFound(err) {
		t.Error(err)
	}
	a, in, err := s.OfToken(ctx, "d2")
	if err != nil || a.ID != "mine" || a.Account != account || !cmp.Equal(in, second) ||
		!cmp.Equal(a.Intakes, []signal.Intake{first, second}) {
		t.Fatalf("%v: %+v %+v", err, a, in)
	}
	storetest.Must(t, s.NoteRequest(ctx, account, first.ID, []byte(`{"n":1}`)))
	storetest.Must(t, s.NoteRequest(ctx, account, second.ID, []byte(`{"n":2}`)))
	if list, err := s.Requests(ctx, account, second.ID); err != nil || len(list) != 1 || string(list[0].Request) != `{"n":2}` ||
		time.Since(list[0].At) > time.Minute || list[0].Signal != "" {
		t.Errorf("%v: %+v", err, list)
	}
	// Another process that has just found the owner does not let an alert pass either.
	storetest.Must(t, s.RemoveIntake(ctx, account, "mine", second.ID))
	if _, _, err := s.OfToken(ctx, "d2"); !isNotFound(err) {
		t.Error(err)
	}
	if err := s.RemoveIntake(ctx, account, "mine", second.ID); !isNotFound(err) {
		t.Error(err)
	}
	if left := keysLeft(t, s); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
	storetest.Must(t, s.Remove(ctx, account, "mine"))
	if _, _, err := s.OfToken(ctx, "d1"); !isNotFound(err) {
		t.Error(err)
	}
	if left := keysLeft(t, s); len(left) != 0 {
		t.Errorf("left: %v", left)
	}

	other := newAccount(t, s)
	storetest.Must(t, s.AddIntake(ctx, other, "mine", intakeOf("d4")))
	restored := map[string]string{s.c.IntakeKey("d4"): string(other) + " mine"}
	if fields, err := s.c.RDB.HGetAll(ctx, s.key(other)).Result(); err != nil ||
		!cmp.Equal(Restored(s.c.Keys, other, "mine", fields["mine"]), restored) ||
		len(Restored(s.c.Keys, other, "#mine", fields["#mine"])) != 0 {
		t.Errorf("%v: %v", err, fields)
	}
	s.c.RDB.Del(ctx, s.c.AccountKey(other)) // it is deleted, and erased later
	if _, _, err := s.OfToken(ctx, "d4"); !isNotFound(err) {
		t.Error(err)
	}
	_, err = Erase(ctx, s.c, s.c.Partition(other), other)
	storetest.Must(t, err)
	if left := keysLeft(t, s); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestIntakesAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	account := newAccount(t, s)
	for i := range signal.MaxIntakes {
		storetest.Must(t, s.AddIntake(t.Context(), account, "mine", intakeOf(string(rune('a'+i)))))
	}
	if err := s.AddIntake(t.Context(), account, "mine", intakeOf("z")); signal.CodeOf(err) != "limit_reached" {
		t.Error(err)
	}
	if _, _, err := s.OfToken(t.Context(), "z"); !isNotFound(err) {
		t.Error(err)
	}
}

// TestAlertsFollowEachOther: of two that were read at the same time one is refused, and none follows a revocation.
func TestAlertsFollowEachOther(t *testing.T) {
	t.Parallel()
	s, log := newStore(t)
	ctx, account := t.Context(), newAccount(t, s)
	in := intakeOf("d1")
	storetest.Must(t, s.AddIntake(ctx, account, "mine", in))
	a, _, err := s.OfToken(ctx, "d1")
	storetest.Must(t, err)
	marks, err := s.Marks(ctx, account, []string{"one", "two"})
	storetest.Must(t, err)
	change := func(digest string, topics []signal.AlertTopic) error {
		_, err := log.Append(ctx, signal.Change{Account: account, Agent: &a, Alert: &signal.Alert{Intake: in.ID, Topics: topics,
			Digest: digest, Received: time.UnixMilli(5), Answer: `{"reason":"closed"}`, Request: []byte(`{}`)}})
		return err
	}
	storetest.Must(t, change("first", marks[:1]))
	if err := change("second", marks); signal.CodeOf(err) != signal.CodeOf(eventlog.ErrAlertOvertaken) {
		t.Error(err)
	}
	again, err := s.Marks(ctx, account, []string{"one", "two"})
	storetest.Must(t, err)
	if again[1].Mark != "" || !strings.HasSuffix(again[0].Mark, ` first 5 {"reason":"closed"}`) {
		t.Errorf("%+v", again)
	}
	s.c.RDB.Del(ctx, s.c.AlertKey(s.c.Partition(account), account, "one")) // a minute later
	storetest.Must(t, change("third", again))
	if list, err := s.Requests(ctx, account, in.ID); err != nil || len(list) != 2 {
		t.Errorf("%v: %d requests", err, len(list))
	}
	storetest.Must(t, s.RemoveIntake(ctx, account, "mine", in.ID))
	if err := change("fourth", nil); signal.CodeOf(err) != "agent_changed" {
		t.Error(err)
	}
	for range signal.MaxIntakeRequests + 5 {
		storetest.Must(t, s.NoteRequest(ctx, account, in.ID, []byte(`{}`)))
	}
	if list, err := s.Requests(ctx, account, in.ID); err != nil || len(list) != signal.MaxIntakeRequests {
		t.Errorf("%v: %d requests", err, len(list))
	}
}
