package schedules

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// scheduleBench is a store with schedules of one account.
type scheduleBench struct {
	*testing.T
	s       *eventlog.Store
	h       *Store
	p       int
	account signal.AccountID
}

func newScheduleBench(t *testing.T) *scheduleBench {
	c := storetest.Client(t, redisclient.Options{URL: redistest.New(t).URL(), Partitions: 4})
	s := eventlog.New(c)
	log := storetest.Closing(t, eventlog.NewLog(s, eventlog.LogOptions{}))
	return &scheduleBench{t, s, New(c, log), 1, storetest.AccountIn(c, 1)}
}

func (b *scheduleBench) add(s signal.Schedule) signal.Schedule {
	b.Helper()
	s, err := b.h.AddSchedule(b.Context(), s, 100)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *scheduleBench) due(until time.Time) ([]signal.Schedule, time.Time) {
	b.Helper()
	list, next, err := b.h.DueSchedules(b.Context(), b.p, until, 10)
	if err != nil {
		b.Fatal(err)
	}
	return list, next
}

func TestSchedulesAreKept(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	first, second := b.add(storetest.Schedule(b.account)), storetest.Schedule(b.account)
	second.Status, second.NextRunAt, second.Every = signal.ScheduleDisabled, time.Time{}, 0
	second = b.add(second)
	other := b.add(storetest.Schedule(storetest.AccountIn(b.s, 1)))
	for _, want := range []signal.Schedule{first, second, other} {
		got, err := b.h.Schedule(ctx, want.Account, want.ID)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("read: %v\n%s", err, d)
		}
	}
	list, err := b.h.Schedules(ctx, b.account)
	if d := cmp.Diff([]signal.Schedule{second, first}, list); d != "" || err != nil {
		t.Errorf("listed: %v\n%s", err, d)
	}
	if _, err := b.h.Schedule(ctx, b.account, other.ID); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("another account's is read: %v", err)
	}
	if err := b.h.RemoveSchedule(ctx, b.account, other.ID); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("another account's is removed: %v", err)
	}
	storetest.Must(t, b.h.RemoveSchedule(ctx, b.account, first.ID))
	if due, _ := b.due(first.NextRunAt.Add(time.Hour)); len(due) != 1 || due[0].ID != other.ID {
		t.Errorf("due: %+v", due)
	}
	if list, err := b.h.Schedules(ctx, b.account); len(list) != 1 || err != nil {
		t.Errorf("%d are left, %v", len(list), err)
	}
	events, err := b.s.ReadLog(ctx, 1, signal.Position{}, 10)
	if err != nil || len(events) != 4 {
		t.Fatalf("events: %+v, %v", events, err)
	}
	if e := events[3]; e.Type != signal.ScheduleChanged || e.Subject != string(first.ID) || !e.Type.Internal() {
		t.Errorf("the last event is %+v", e)
	}
}

func TestScheduleLimit(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := b.h.AddSchedule(t.Context(), storetest.Schedule(b.account), 7)
			if err != nil && signal.CodeOf(err) != "limit_reached" {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := b.h.Schedules(t.Context(), b.account); len(list) != 7 || err != nil {
		t.Errorf("%d schedules, %v", len(list), err)
	}
}

func TestOneOfTwoChangesOfAScheduleWins(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	read := b.add(storetest.Schedule(b.account))
	one, two := read, read
	one.MaxOpen, two.MaxOpen = 5, 6
	one, err := b.h.ChangeSchedule(ctx, one, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.h.ChangeSchedule(ctx, two, false); signal.CodeOf(err) != "schedule_changed" {
		t.Errorf("the second change: %v", err)
	}
	one.Status, one.NextRunAt = signal.ScheduleDisabled, time.Time{}
	if one, err = b.h.ChangeSchedule(ctx, one, true); err != nil {
		t.Fatal(err)
	}
	if due, next := b.due(time.UnixMilli(1 << 42)); len(due) != 0 || !next.IsZero() {
		t.Errorf("a disabled one is due: %+v, %v", due, next)
	}
	one.Status, one.NextRunAt = signal.ScheduleEnabled, time.UnixMilli(1_900_000_000_000).UTC()
	if _, err = b.h.ChangeSchedule(ctx, one, true); err != nil {
		t.Fatal(err)
	}
	got, err := b.h.Schedule(ctx, b.account, one.ID)
	if err != nil || !got.NextRunAt.Equal(one.NextRunAt) || got.MaxOpen != 5 {
		t.Errorf("read: %+v, %v", got, err)
	}
	storetest.Must(t, b.h.RemoveSchedule(ctx, b.account, one.ID))
	if _, err := b.h.ChangeSchedule(ctx, one, true); signal.CodeOf(err) != "schedule_changed" {
		t.Errorf("a change of a removed one: %v", err)
	}
	if due, _ := b.due(time.UnixMilli(1 << 42)); len(due) != 0 {
		t.Errorf("a removed one is due: %+v", due)
	}
}

func TestOnlyTheOwnerMovesASchedule(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	early, late := storetest.Schedule(b.account), storetest.Schedule(b.account)
	late.NextRunAt = late.NextRunAt.Add(time.Minute)
	early, late = b.add(early), b.add(late)
	due, next := b.due(early.NextRunAt)
	if d := cmp.Diff([]signal.Schedule{early}, due); d != "" || !next.Equal(late.NextRunAt) {
		t.Errorf("due, and next at %v:\n%s", next, d)
	}
	former := storetest.Take(t, b.s.Leases, 1, "a", time.Minute)
	storetest.Must(t, b.s.Leases.ReleaseLease(ctx, 1, "a", former))
	epoch := storetest.Take(t, b.s.Leases, 1, "b", time.Minute)
	later := early.NextRunAt.Add(time.Hour)
	if err := b.h.MoveSchedule(ctx, 1, former, early, later); signal.CodeOf(err) != "not_owner" {
		t.Errorf("a former owner moves: %v", err)
	}
	storetest.Must(t, b.h.MoveSchedule(ctx, 1, epoch, early, later))
	got, err := b.h.Schedule(ctx, b.account, early.ID)
	if err != nil || !got.NextRunAt.Equal(later) || got.Revision != early.Revision {
		t.Errorf("moved: %+v, %v", got, err)
	}
	// Erasing removes schedules from the set first, and a move must not add them again.
	member := scheduleMember(late.Account, late.ID)
	storetest.Must(t, b.s.RDB.ZRem(ctx, b.s.SchedulesDueKey(1), member).Err())
	if err := b.h.MoveSchedule(ctx, 1, epoch, late, later); signal.CodeOf(err) != "schedule_changed" {
		t.Errorf("one that is no longer due is moved: %v", err)
	}
	changed := got
	changed.MaxOpen = 9
	if _, err := b.h.ChangeSchedule(ctx, changed, false); err != nil {
		t.Fatal(err)
	}
	if err := b.h.MoveSchedule(ctx, 1, epoch, got, later.Add(time.Hour)); signal.CodeOf(err) != "schedule_changed" {
		t.Errorf("one that was changed is moved: %v", err)
	}
}

func TestDamagedScheduleBlocksNoOther(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	damaged, well := b.add(storetest.Schedule(b.account)), b.add(storetest.Schedule(b.account))
	b.s.RDB.HSet(ctx, b.s.SchedulesKey(1, b.account), string(damaged.ID), "\x09damaged")
	b.s.RDB.ZAdd(ctx, b.s.SchedulesDueKey(1), storetest.DueAt(well.NextRunAt, "nothing"))
	for range 2 {
		if due, _ := b.due(well.NextRunAt); len(due) != 1 || due[0].ID != well.ID {
			t.Errorf("due: %+v", due)
		}
	}
	if list, err := b.h.Schedules(ctx, b.account); len(list) != 1 || err != nil {
		t.Errorf("%d are listed, %v", len(list), err)
	}
	member := scheduleMember(b.account, damaged.ID)
	storetest.WantPostponed(t, b.s.RDB, b.s.SchedulesDueKey(1), member, well.NextRunAt)
	if err := b.h.RemoveSchedule(ctx, b.account, damaged.ID); err != nil {
		t.Errorf("the damaged one is not removed: %v", err)
	}
}

// TestRoundsOfSchedulesAreRecorded: rounds leave the revision of the record unchanged.
func TestRoundsOfSchedulesAreRecorded(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	s, other := b.add(storetest.Schedule(b.account)), b.add(storetest.Schedule(b.account))
	former := storetest.Take(t, b.s.Leases, 1, "a", time.Minute)
	storetest.Must(t, b.s.Leases.ReleaseLease(ctx, 1, "a", former))
	epoch := storetest.Take(t, b.s.Leases, 1, "b", time.Minute)
	at := s.NextRunAt
	record := func(r signal.Round) {
		t.Helper()
		at = at.Add(time.Minute)
		r.At = at
		storetest.Must(t, b.h.RecordRound(ctx, 1, epoch, s, r))
	}
	check := func(failures, skipped int, e *signal.ScheduleError) {
		t.Helper()
		want := s
		want.LastRunAt, want.LastError, want.Failures, want.Skipped = at, e, failures, skipped
		got, err := b.h.Schedule(ctx, b.account, s.ID)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("read: %v\n%s", err, d)
		}
		list, err := b.h.Schedules(ctx, b.account)
		if d := cmp.Diff([]signal.Schedule{other, want}, list); d != "" || err != nil {
			t.Errorf("listed: %v\n%s", err, d)
		}
	}
	record(signal.Round{Runs: 2})
	check(0, 0, nil)
	first := &signal.ScheduleError{Code: "STALE_DATA", Message: "the price is old", At: at.Add(time.Second)}
	record(signal.Round{Runs: 3, Failures: 2, Error: first})
	check(2, 0, first)
	record(signal.Round{Runs: 5, Failures: 2, Error: first}) // one succeeded after those before
	check(2, 0, first)
	record(signal.Round{Runs: 1, Failures: 1, Error: first, Skipped: true})
	check(3, 1, first)
	record(signal.Round{Skipped: true}) // without a run, so none succeeded
	check(3, 2, first)
	record(signal.Round{Runs: 1, Failures: 1, Error: first})
	check(4, 2, first)
	record(signal.Round{Runs: 4, Failures: 1, Error: first})
	check(1, 2, first)
	record(signal.Round{Runs: 2, Error: first}) // its failed run came before the one that succeeded
	check(0, 2, first)

	changed, err := b.h.ChangeSchedule(ctx, func() signal.Schedule { c := s; c.MaxOpen = 9; return c }(), false)
	if err != nil {
		t.Fatalf("a round has changed the revision: %v", err)
	}
	s.MaxOpen, s.Revision = 9, changed.Revision
	check(0, 2, first)
	err = b.h.RecordRound(ctx, 1, former, s, signal.Round{At: at, Runs: 1, Failures: 7})
	storetest.WantError(t, err, signal.KindConflict, signal.CodeNotOwner)
	check(0, 2, first)
	rounds := b.s.ScheduleRoundsKey(1, b.account)
	storetest.Must(t, b.s.RDB.HSet(ctx, rounds, roundField(s.ID, roundError), "\x09damaged").Err())
	check(0, 2, nil)
	storetest.Must(t, b.h.RemoveSchedule(ctx, b.account, s.ID))
	err = b.h.RecordRound(ctx, 1, epoch, s, signal.Round{At: at, Runs: 1})
	storetest.WantKind(t, "a round of a removed schedule", err, signal.KindNotFound)
	if left, err := b.s.RDB.HGetAll(ctx, rounds).Result(); err != nil || len(left) > 0 {
		t.Errorf("%v is left of a removed schedule, %v", left, err)
	}
}

func FuzzDecodeScheduleError(f *testing.F) {
	e := signal.ScheduleError{Code: "TIMEOUT", Message: "the run took too long", At: time.UnixMilli(1_800_000_000_000)}
	f.Add(appendScheduleError(nil, &e))
	f.Add([]byte{scheduleErrorVersion, 1, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decodeScheduleError(value)
		if err != nil {
			return
		}
		if again, err := decodeScheduleError(appendScheduleError(nil, &e)); err != nil || again != e {
			t.Errorf("read again: %+v, want %+v, %v", again, e, err)
		}
	})
}

func FuzzDecodeSchedule(f *testing.F) {
	s := storetest.Schedule("acc_1")
	f.Add(appendSchedule(nil, &s))
	s.Status, s.Every = signal.ScheduleDisabled, 0
	f.Add(appendSchedule(nil, &s))
	f.Add([]byte{scheduleVersion, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := decodeSchedule("acc_1", "sch_1", value)
		if err != nil {
			return
		}
		again, err := decodeSchedule("acc_1", "sch_1", appendSchedule(nil, &s))
		again.Revision = s.Revision
		if d := cmp.Diff(s, again); d != "" || err != nil {
			t.Errorf("read again: %v\n%s", err, d)
		}
	})
}

// A schedule that is removed or disabled after it was found to be due is left out. A disabled one
// stays in the set of due ones, since it may be enabled again.
func TestScheduleChangesWhileDue(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	removed, disabled := b.add(storetest.Schedule(b.account)), b.add(storetest.Schedule(b.account))
	well := b.add(storetest.Schedule(b.account))
	until := well.NextRunAt.Add(time.Hour)
	b.s.RDB.HDel(ctx, b.s.SchedulesKey(b.p, b.account), string(removed.ID))
	change := disabled
	change.Status, change.NextRunAt = signal.ScheduleDisabled, time.Time{}
	if _, err := b.h.ChangeSchedule(ctx, change, true); err != nil {
		t.Fatal(err)
	}
	due := redis.Z{Score: 1, Member: scheduleMember(b.account, disabled.ID)}
	b.s.RDB.ZAdd(ctx, b.s.SchedulesDueKey(b.p), due)
	if list, _ := b.due(until); len(list) != 1 || list[0].ID != well.ID {
		t.Errorf("due: %+v, want %s", list, well.ID)
	}
	want := []string{due.Member.(string), scheduleMember(b.account, well.ID)}
	if got := b.s.RDB.ZRange(ctx, b.s.SchedulesDueKey(b.p), 0, -1).Val(); !slices.Equal(got, want) {
		t.Errorf("%q are in the set, want %q", got, want)
	}
}

// Members without a record do not keep others from being found, however many they are.
func TestMembersWithoutARecordAreRemoved(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	well := b.add(storetest.Schedule(b.account))
	until := well.NextRunAt.Add(time.Hour)
	for range 10 { // as many as b.due reads
		z := redis.Z{Score: 1, Member: scheduleMember(b.account, signal.NewScheduleID())}
		b.s.RDB.ZAdd(ctx, b.s.SchedulesDueKey(b.p), z)
	}
	if list, next := b.due(until); len(list) != 0 || !next.Equal(until) {
		t.Errorf("due: %+v, the next at %v, want %v", list, next, until)
	}
	if list, next := b.due(until); len(list) != 1 || list[0].ID != well.ID || !next.IsZero() {
		t.Errorf("due then: %+v, the next at %v", list, next)
	}
	if n := b.s.RDB.ZCard(ctx, b.s.SchedulesDueKey(b.p)).Val(); n != 1 {
		t.Errorf("%d are in the set", n)
	}
}

// afterFirst is a hook that calls a function once, after the next command.
type afterFirst func()

// DialHook implements redis.Hook.
func (*afterFirst) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*afterFirst) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (f *afterFirst) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if do := *f; do != nil {
			*f = nil
			do()
		}
		return err
	}
}

// A request that was under way at the deletion may add a schedule while others are erased. The
// second pass erases it.
func TestAScheduleIsAddedWhileOthersAreErased(t *testing.T) {
	t.Parallel()
	b := newScheduleBench(t)
	ctx := t.Context()
	b.add(storetest.Schedule(b.account))
	other := b.add(storetest.Schedule(storetest.AccountIn(b.s, b.p)))
	added := false
	late := afterFirst(func() {
		b.add(storetest.Schedule(b.account))
		added = true
	})
	b.s.RDB.AddHook(&late)
	for range 2 {
		if more, err := Erase(ctx, b.s.Client, b.p, b.account); more != "" || err != nil {
			t.Fatalf("%q, %v", more, err)
		}
	}
	want := []string{scheduleMember(other.Account, other.ID)}
	if due := b.s.RDB.ZRange(ctx, b.s.SchedulesDueKey(b.p), 0, -1).Val(); !slices.Equal(due, want) || !added {
		t.Errorf("%q are due, want %q", due, want)
	}
	if list, err := b.h.Schedules(ctx, b.account); len(list) != 0 || err != nil {
		t.Errorf("%d are left, %v", len(list), err)
	}
}

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 5, nil)
}

func TestMain(m *testing.M) { storetest.Main(m) }
