package persistence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

func zAt(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.UnixMilli()), Member: member}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDueMember(t *testing.T) {
	t.Parallel()
	want := signal.RunDue{Account: signal.NewAccountID(), Run: signal.NewRunID(), Agent: "trading"}
	got, err := signals.DecodeDue(eventlog.DueMember(want.Account, want.Run, want.Agent))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	for _, bad := range []string{"", "acc", "acc run", "acc  agent", " run agent", "acc run ", "acc run agent more"} {
		if got, err := signals.DecodeDue(bad); err == nil {
			t.Errorf("decodeDue(%q): %+v, want an error", bad, got)
		}
	}
}

func TestEndedMembers(t *testing.T) {
	t.Parallel()
	c := signal.Change{Account: "acc_1", Ended: "run_1", Events: []signal.Event{
		{Type: signal.SignalCreated}, {Type: signal.AgentCompleted, Run: "run_1", Agent: "weather"}}}
	if d := cmp.Diff([]string{"acc_1 run_1 weather"}, eventlog.EndedMembers(&c)); d != "" {
		t.Errorf("with the run's event (-want +got):\n%s", d)
	}
	c.Events = nil
	want := []string{"acc_1 run_1 trading", "acc_1 run_1 weather", "acc_1 run_1 seo"}
	if d := cmp.Diff(want, eventlog.EndedMembers(&c)); d != "" {
		t.Errorf("without (-want +got):\n%s", d)
	}
}

func FuzzDecodeDue(f *testing.F) {
	f.Add("acc_1 run_1 trading")
	f.Add("a  b")
	f.Fuzz(func(t *testing.T, member string) {
		due, err := signals.DecodeDue(member)
		if err == nil && eventlog.DueMember(due.Account, due.Run, due.Agent) != member {
			t.Errorf("%q is read as %+v", member, due)
		}
	})
}

// A version that knew no webhooks or schedules may have begun: its pass begins anew.
func TestParseErasingOfTheVersionsBefore(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1795253400123).UTC()
	for version, before := range erasedBefore {
		for stage := range before.stages {
			want := erasing{deleted: at}
			if stage > before.grace {
				want.stage = 8
			}
			got, err := parseErasing(fmt.Sprintf("%s 1795253400123 %d 17", version, stage))
			if err != nil || got != want {
				t.Errorf("stage %d of version %s is read as %+v, %v; want %+v", stage, version, got, err, want)
			}
		}
	}
	if eraseStages[7] != nil || eraseStages[8] == nil {
		t.Error("the second pass begins elsewhere")
	}
	for _, bad := range []string{"1 1795253400123 11 ", "2 1795253400123 15 ", "3 1795253400123 17 ", "4 1795253400123 0 ", "2 x 0 ", "2 1 -1 ", "2 1 0"} {
		if got, err := parseErasing(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func FuzzParseErasing(f *testing.F) {
	f.Add("1 1795253400123 3 17")
	f.Add("1 -1 4 ")
	f.Add("2 1795253400123 14 (1795253400123-5")
	f.Fuzz(func(t *testing.T, state string) {
		e, err := parseErasing(state)
		if err != nil {
			return
		}
		if again, err := parseErasing(e.String()); err != nil || again != e {
			t.Errorf("%q is read as %+v, then %+v, %v", state, e, again, err)
		}
	})
}

func TestOverdueRuns(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx := t.Context()
	log := NewLog(s, eventlog.LogOptions{})
	t.Cleanup(func() { log.Close(context.Background()) })
	account := accountIn(s, 2)
	at := time.UnixMilli(1_800_000_000_000).UTC()
	var runs []signal.RunDue
	for i := range 4 {
		due := signal.RunDue{Run: signal.NewRunID(), Agent: "trading", At: at.Add(time.Duration(i) * time.Second), Account: account}
		runs = append(runs, due)
		if _, err := log.Append(ctx, signal.Change{Account: account, Due: &due,
			Events: []signal.Event{{Type: signal.AgentStarted, Run: due.Run, Agent: due.Agent}}}); err != nil {
			t.Fatal(err)
		}
	}
	s.RDB.ZAdd(ctx, redisclient.RunsDueKey(2), zAt(at.Add(-time.Hour), "damaged"))
	end := signal.Change{Account: account, Ended: runs[1].Run,
		Events: []signal.Event{{Type: signal.AgentCompleted, Run: runs[1].Run, Agent: "trading"}}}
	if _, err := log.Append(ctx, end); err != nil {
		t.Fatal(err)
	}
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
	if n := s.RDB.ZCard(ctx, redisclient.RunsDueKey(2)).Val(); n != 4 {
		t.Errorf("%d entries are left, want 4: the ended one is gone, the damaged one waits", n)
	}
	wantPostponed(t, s, redisclient.RunsDueKey(2), "damaged", at.Add(3*time.Second))
	_, err = log.Append(ctx, end)
	wantKind(t, "a second end of the run", err, signal.KindConflict)
}

// Two accounts have records of every kind; one is erased.
func TestErase(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	log := NewLog(s, eventlog.LogOptions{})
	t.Cleanup(func() { log.Close(context.Background()) })
	gone, stays := accountIn(s, 1), accountIn(s, 1)
	for i := range 30 {
		for _, a := range []signal.AccountID{gone, stays} {
			fillAccount(t, s, log, a, i)
		}
	}
	if _, err := log.Append(ctx, signal.Change{Account: gone, Events: []signal.Event{{Type: signal.AccountDeleted}}}); err != nil {
		t.Fatal(err)
	}
	schedules := NewSchedules(s, log)
	for _, a := range []signal.AccountID{gone, stays} {
		if _, err := schedules.AddSchedule(ctx, testSchedule(a), 1); err != nil {
			t.Fatal(err)
		}
	}
	epoch := take(t, s, 1, "a", time.Minute)
	for _, a := range []signal.AccountID{gone, stays} {
		list, err := schedules.Schedules(ctx, a)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d schedules, %v", len(list), err)
		}
		if err := schedules.RecordRound(ctx, 1, epoch, list[0], signal.Round{At: s.Now(), Runs: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the event may come twice
		if err := s.BeginErase(ctx, 1, epoch, gone, s.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.EraseStep(ctx, 1, epoch-1); !errors.Is(err, eventlog.ErrNotOwner) {
		t.Errorf("a step of a former owner: %v", err)
	}
	wait := eraseAll(t, s, epoch)
	if wait <= eraseGrace/2 || wait > eraseGrace {
		t.Errorf("after the first pass it waits %v, want nearly %v", wait, eraseGrace)
	}
	if got := eraseState(t, s, gone); got["open"]+got["due"]+got["jobs"]+got["replies"]+got["webhooks"]+got["deliveries"]+got["bodies"]+got["mails"] != 0 ||
		got["events"] == 0 {
		t.Errorf("left after the first pass: %v; want entries of the logs only", got)
	}
	fillAccount(t, s, log, gone, 99) // a run that was under way

	// The grace has passed, by moving the deletion into the past.
	state := s.RDB.HGet(ctx, redisclient.EraseKey(1), string(gone)).Val()
	e, err := parseErasing(state)
	if err != nil {
		t.Fatal(err)
	}
	e.deleted = e.deleted.Add(-eraseGrace)
	if err := s.noteErase(ctx, 1, epoch, gone, state, e.String()); err != nil {
		t.Fatal(err)
	}
	if wait := eraseAll(t, s, epoch); wait >= 0 {
		t.Errorf("there is more to do in %v", wait)
	}
	if d := cmp.Diff(map[string]int{"open": 0, "due": 0, "jobs": 0, "replies": 0, "events": 1, "signals": 0,
		"webhooks": 0, "deliveries": 0, "bodies": 0, "mails": 0}, eraseState(t, s, gone)); d != "" {
		t.Errorf("left of the deleted account (-want +got):\n%s", d)
	}
	want := map[string]int{"open": 15, "due": 30, "jobs": 31, "replies": 30, "events": 107, "signals": 45,
		"webhooks": 1, "deliveries": 30, "bodies": 30, "mails": 30}
	if d := cmp.Diff(want, eraseState(t, s, stays)); d != "" {
		t.Errorf("left of the other account (-want +got):\n%s", d)
	}
	if due := s.RDB.ZRange(ctx, redisclient.SchedulesDueKey(1), 0, -1).Val(); len(due) != 1 || !strings.HasPrefix(due[0], string(stays)) {
		t.Errorf("due schedules: %v", due)
	}
	for _, key := range server.Client().Keys(ctx, "*").Val() {
		if strings.Contains(key, string(gone)) {
			t.Errorf("key %s is left", key)
		}
	}
	if _, err := s.EraseStep(ctx, 1, epoch); err != nil {
		t.Errorf("a step with nothing to do: %v", err)
	}
}

// eraseAll takes steps until there is nothing to do at once.
func eraseAll(t *testing.T, s *Store, epoch int64) time.Duration {
	t.Helper()
	for range 1000 {
		wait, err := s.EraseStep(t.Context(), 1, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if wait != 0 {
			return wait
		}
	}
	t.Fatal("erasing does not end")
	return 0
}

// fillAccount makes records of an account: a run that is due, a signal that is
// closed if i is odd, a job, a reply, a delivery, a mail and sometimes a webhook.
func fillAccount(t *testing.T, s *Store, log *eventlog.Log, a signal.AccountID, i int) {
	t.Helper()
	ctx := t.Context()
	run := signal.NewRunID()
	sig := &signal.Signal{ID: signal.NewSignalID(), Account: a, Agent: "trading", Run: run, Asset: "BTC", Strategy: "momentum",
		Direction: signal.Long, Confidence: .5, Timeframe: signal.H1, Risk: signal.LowRisk, Sequence: 1}
	changes := []signal.Change{{Account: a, Signal: sig, Due: &signal.RunDue{Run: run, Agent: "trading", At: time.Now()},
		Events: []signal.Event{{Type: signal.AgentStarted, Agent: "trading", Run: run}, {Type: signal.SignalCreated, Asset: "BTC"},
			{Type: signal.AgentCompleted, Agent: "trading", Run: run}}}}
	if i%2 == 1 {
		closed := *sig
		closed.Closing, closed.Sequence = &signal.Closing{Reason: signal.Expired}, 2
		changes = append(changes, signal.Change{Account: a, Signal: &closed, Events: []signal.Event{{Type: signal.SignalClosed, Asset: "BTC"}}})
	}
	for _, c := range changes {
		if _, err := log.Append(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	p := s.Partition(a)
	job := signal.NewJobID()
	s.RDB.HSet(ctx, redisclient.JobKey(p, job), "s", "queued 0")
	for _, index := range []string{redisclient.JobsOfKey(p, a), redisclient.JobsWithKey(p, a, signal.JobQueued), redisclient.JobsEndedKey(p, a)} {
		s.RDB.ZAdd(ctx, index, redis.Z{Score: float64(i), Member: string(job)})
	}
	s.RDB.Set(ctx, redisclient.ReplyKey(p, a, fmt.Sprint(i)), "x", time.Hour)
	fillWebhook(t, s, log, a, i)
}

// fillWebhook makes a delivery and a mail of an account, and a webhook if it has none.
func fillWebhook(t *testing.T, s *Store, log *eventlog.Log, a signal.AccountID, i int) {
	t.Helper()
	h, ctx, p := NewWebhooks(s, log), t.Context(), s.Partition(a)
	list, err := h.Webhooks(ctx, a)
	if err == nil && len(list) == 0 {
		var w delivery.Webhook
		w, err = h.Register(ctx, testWebhook(a), 10, nil)
		list = append(list, w)
	}
	if err != nil {
		t.Fatal(err)
	}
	batch := []delivery.EventDeliveries{{Event: signal.NewEventID(), Body: fmt.Append(nil, a, i)}}
	batch[0].Deliveries = []delivery.Delivery{testDelivery(&list[0], batch[0].Event, time.UnixMilli(int64(i+1)))}
	o := eventlog.NewOperation()
	deliveries.AddDeliveries(o, p, batch)
	deliveries.AddMail(o, p, delivery.Mail{Account: a, Webhook: list[0].ID, Tries: i}, time.UnixMilli(1))
	if _, err := log.Apply(ctx, p, o); err != nil {
		t.Fatal(err)
	}
}

// eraseState counts the records of an account in partition 1.
func eraseState(t *testing.T, s *Store, a signal.AccountID) map[string]int {
	t.Helper()
	ctx := t.Context()
	got := map[string]int{"open": 0, "due": 0, "jobs": 0, "replies": 0, "events": 0, "signals": 0,
		"webhooks": 0, "deliveries": 0, "bodies": 0, "mails": 0}
	got["webhooks"] = int(s.RDB.HLen(ctx, redisclient.WebhooksKey(1, a)).Val())
	for _, m := range s.RDB.ZRange(ctx, redisclient.WebhooksDueKey(1), 0, -1).Val() {
		if account, webhook, _ := deliveries.CutMember(m); account == a {
			got["deliveries"] += int(s.RDB.HLen(ctx, redisclient.DeliveriesKey(1, webhook)).Val())
		}
	}
	for _, body := range s.RDB.HVals(ctx, redisclient.BodiesKey(1)).Val() {
		if strings.HasPrefix(body, string(a)) {
			got["bodies"]++
		}
	}
	for id, record := range s.RDB.HGetAll(ctx, redisclient.MailRecordsKey(1)).Val() {
		if m, err := deliveries.DecodeMail(id, []byte(record)); err != nil || m.Account == a {
			got["mails"]++
		}
	}
	for field, value := range s.RDB.HGetAll(ctx, redisclient.OpenKey(1)).Val() {
		if open, _, err := codec.DecodeOpen([]byte(field), []byte(value)); err != nil || open.Account == a {
			got["open"]++
		}
	}
	for _, m := range s.RDB.ZRange(ctx, redisclient.RunsDueKey(1), 0, -1).Val() {
		if strings.HasPrefix(m, string(a)) {
			got["due"]++
		}
	}
	jobs := s.RDB.ZRange(ctx, redisclient.JobsOfKey(1, a), 0, -1).Val()
	for _, id := range jobs {
		if s.RDB.Exists(ctx, redisclient.JobKey(1, signal.JobID(id))).Val() == 1 {
			got["jobs"]++
		}
	}
	if s.RDB.Exists(ctx, redisclient.JobsWithKey(1, a, signal.JobQueued)).Val() == 1 {
		got["jobs"]++
	}
	var node redis.Cmdable = s.RDB // KEYS is asked of a single node
	if c, ok := s.RDB.(*redis.ClusterClient); ok {
		node, _ = c.MasterForKey(ctx, redisclient.OpenKey(1))
	}
	got["replies"] = len(node.Keys(ctx, redisclient.ReplyKey(1, a, "*")).Val())
	for _, e := range s.RDB.XRange(ctx, redisclient.EventsKey(1), "-", "+").Val() {
		if event, err := codec.DecodeEvent(signal.Position{}, []byte(e.Values["h"].(string)), nil); err != nil || event.Account == a {
			got["events"]++
		}
	}
	for _, e := range s.RDB.XRange(ctx, redisclient.SignalsKey(1), "-", "+").Val() {
		if string(codec.RecordAccount([]byte(e.Values["h"].(string)))) == string(codec.AccountBytes(a)) {
			got["signals"]++
		}
	}
	return got
}

// A step looks at so many entries of a log; the next one goes on from there.
func TestALogLongerThanAStepIsErased(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx, gone, stays := t.Context(), accountIn(s, 1), accountIn(s, 1)
	const each = redisclient.EraseChunk + 5
	pipe := s.RDB.Pipeline()
	for range each {
		for _, a := range []signal.AccountID{gone, stays} {
			e := signal.Event{ID: signal.NewEventID(), Account: a, Type: signal.AgentStarted}
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: redisclient.EventsKey(1), Values: []any{"h", codec.AppendEvent(nil, &e), "d", "{}"}})
		}
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		t.Fatal(err)
	}
	cursor, err := s.eraseEvents(ctx, erasingOf{1, 1, gone}, "")
	for err == nil && cursor != "" {
		cursor, err = s.eraseEvents(ctx, erasingOf{1, 1, gone}, cursor)
	}
	if n := s.RDB.XLen(ctx, redisclient.EventsKey(1)).Val(); err != nil || n != each {
		t.Errorf("%d entries are left, %v; want the %d of the other account", n, err, each)
	}
}

// A state that cannot be read keeps no account from being erased.
func TestAnErasingThatIsNotReadableBeginsAgain(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx, account := t.Context(), accountIn(s, 1)
	epoch := take(t, s, 1, "a", time.Minute)
	s.RDB.HSet(ctx, redisclient.EraseKey(1), string(account), "99 of another version")
	if _, err := s.EraseStep(ctx, 1, epoch); err != nil {
		t.Fatal(err)
	}
	e, err := parseErasing(s.RDB.HGet(ctx, redisclient.EraseKey(1), string(account)).Val())
	if err != nil || e.stage != 0 {
		t.Errorf("state %+v, %v; want the first stage", e, err)
	}
}

func TestErasingWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: 100 * time.Millisecond})
	server.Kill()
	if _, err := s.EraseStep(t.Context(), 1, 1); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("erase: %v, want KindUnavailable", err)
	}
}
