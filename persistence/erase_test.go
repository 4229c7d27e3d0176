package persistence

import (
	"errors"
	"fmt"
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
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/schedules"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestUnknownErasingsAreRefused(t *testing.T) {
	t.Parallel()
	if eraseStages[8] != nil || eraseStages[9] == nil {
		t.Error("the second pass begins elsewhere")
	}
	for _, bad := range []string{
		"6 1795253400123 21  ", "5 1795253400123 0  ", "7 1795253400123 0  ", "6 x 0  ", "6 1 -1  ", "6 1 0 ",
	} {
		if got, err := parseErasing(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func FuzzParseErasing(f *testing.F) {
	f.Add("6 1795253400123 3  17")
	f.Add("6 -1 4 a=1/0/1 ")
	f.Add("6 1795253400123 14  (1795253400123-5")
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

// Two accounts have records of every kind; one is erased.
func TestErase(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	log, epoch := openLog(t, s, eventlog.LogOptions{}), take(t, s, 1)
	deleted, other := storetest.AccountIn(s.Client, 1), storetest.AccountIn(s.Client, 1)
	for i := range 30 {
		for _, a := range []signal.AccountID{deleted, other} {
			fillAccount(t, s, log, epoch, a, i)
		}
	}
	deletion := signal.Change{Account: deleted, Events: []signal.Event{{Type: signal.AccountDeleted}}}
	if _, err := log.Append(ctx, deletion); err != nil {
		t.Fatal(err)
	}
	schedules := schedules.New(s.Client, log)
	for _, a := range []signal.AccountID{deleted, other} {
		if _, err := schedules.AddSchedule(ctx, storetest.Schedule(a), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []signal.AccountID{deleted, other} {
		list, err := schedules.Schedules(ctx, a)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d schedules, %v", len(list), err)
		}
		if err := schedules.RecordRound(ctx, 1, epoch, list[0], signal.Round{At: s.Client.Now(), Runs: 1}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Eraser.BeginErase(ctx, 1, epoch-1, deleted, s.Client.Now())
	storetest.WantKind(t, "erasing by a former owner", err, signal.KindConflict)
	for range 2 { // the event may come twice
		if err := s.Eraser.BeginErase(ctx, 1, epoch, deleted, s.Client.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Eraser.EraseStep(ctx, 1, epoch-1); !errors.Is(err, eventlog.ErrNotOwner) {
		t.Errorf("a step of a former owner: %v", err)
	}
	wait := eraseAll(t, s, epoch)
	if wait <= eraseGrace/2 || wait > eraseGrace {
		t.Errorf("after the first pass it waits %v, want nearly %v", wait, eraseGrace)
	}
	for kind, n := range eraseState(t, s, deleted) {
		if inLog := kind == "events" || kind == "signals"; n != 0 && !inLog || n == 0 && kind == "events" {
			t.Errorf("%d %s are left after the first pass; want entries of the logs only", n, kind)
		}
	}
	fillAccount(t, s, log, epoch, deleted, 99) // a run that was under way
	// Blocks have entries of all accounts. What they are does not matter here.
	s.Client.RDB.XAdd(ctx, &redis.XAddArgs{Stream: s.Client.BlocksKey(1), ID: "1-1", Values: []string{"h", "a block"}})
	entries := s.Client.RDB.XLen(ctx, s.Client.SignalsKey(1)).Val()

	// The grace has passed, by moving the deletion into the past.
	state := s.Client.RDB.HGet(ctx, s.Client.EraseKey(1), string(deleted)).Val()
	e, err := parseErasing(state)
	if err != nil {
		t.Fatal(err)
	}
	e.deleted = e.deleted.Add(-eraseGrace)
	if err := s.Eraser.noteErase(ctx, 1, epoch, deleted, state, e.String()); err != nil {
		t.Fatal(err)
	}
	if wait := eraseAll(t, s, epoch); wait >= 0 {
		t.Errorf("there is more to do in %v", wait)
	}
	// All its signals stay counted, and its leaves cannot be opened.
	if n := s.Client.RDB.XLen(ctx, s.Client.LeavesKey(1)).Val(); n != entries {
		t.Errorf("%d leaves, want %d", n, entries)
	}
	salts := s.Client.RDB.HKeys(ctx, s.Client.LeafAccountsKey(1)).Val()
	if len(salts) != 1 || salts[0] != string(other) {
		t.Errorf("salts of %v are left, want that of %s", salts, other)
	}
	if heads, err := s.Leaves.LogHeads(ctx); err != nil || heads.Gone != "own=6/2/1 trading=25/6/7" {
		t.Errorf("%v; erased accounts had %q", err, heads.Gone)
	}
	want := map[string]int{"open": 0, "due": 0, "jobs": 0, "replies": 0, "events": 1, "signals": 0,
		"webhooks": 0, "deliveries": 0, "bodies": 0, "mails": 0, "blocks": 0}
	if d := cmp.Diff(want, eraseState(t, s, deleted)); d != "" {
		t.Errorf("left of the deleted account (-want +got):\n%s", d)
	}
	want = map[string]int{"open": 15, "due": 30, "jobs": 31, "replies": 30, "events": 107, "signals": 45,
		"webhooks": 1, "deliveries": 30, "bodies": 30, "mails": 30, "blocks": 0}
	if d := cmp.Diff(want, eraseState(t, s, other)); d != "" {
		t.Errorf("left of the other account (-want +got):\n%s", d)
	}
	due := s.Client.RDB.ZRange(ctx, s.Client.SchedulesDueKey(1), 0, -1).Val()
	if len(due) != 1 || !strings.HasPrefix(due[0], string(other)) {
		t.Errorf("due schedules: %v", due)
	}
	for _, key := range server.Client().Keys(ctx, "*").Val() {
		if strings.Contains(key, string(deleted)) {
			t.Errorf("key %s is left", key)
		}
	}
	if _, err := s.Eraser.EraseStep(ctx, 1, epoch); err != nil {
		t.Errorf("a step with nothing to do: %v", err)
	}
}

// eraseAll takes steps until there is nothing to do at once.
func eraseAll(t *testing.T, s *Store, epoch int64) time.Duration {
	t.Helper()
	for range 1000 {
		wait, err := s.Eraser.EraseStep(t.Context(), 1, epoch)
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
func fillAccount(t *testing.T, s *Store, log *eventlog.Log, epoch int64, a signal.AccountID, i int) {
	t.Helper()
	ctx := t.Context()
	sig := storetest.Signal(a)
	sig.Sequence = 1
	if i%5 == 0 {
		sig.Agent = "my_bot"
	}
	change := storetest.Created(sig)
	change.Due = &signal.RunDue{Run: sig.Run, Agent: "trading", At: time.Now()}
	started := signal.Event{Type: signal.AgentStarted, Agent: "trading", Run: sig.Run}
	change.Events = append([]signal.Event{started}, change.Events...)
	changes := []signal.Change{change}
	if i%2 == 1 {
		closed := *sig
		profit := float64(2 - i%4) // 1 or -1
		closed.Closing, closed.Sequence = &signal.Closing{Reason: signal.Expired, PnLPercent: &profit}, 2
		end := signal.Event{Type: signal.SignalClosed, Asset: "BTC"}
		changes = append(changes, signal.Change{Account: a, Signal: &closed, Events: []signal.Event{end}})
	}
	for _, c := range changes {
		if _, err := log.Append(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	p := s.Client.Partition(a)
	job := signal.NewJobID()
	s.Client.RDB.HSet(ctx, s.Client.JobKey(p, job), "s", "queued 0")
	queued := s.Client.JobsWithKey(p, a, signal.JobQueued)
	for _, index := range []string{s.Client.JobsOfKey(p, a), queued, s.Client.JobsEndedKey(p, a)} {
		s.Client.RDB.ZAdd(ctx, index, redis.Z{Score: float64(i), Member: string(job)})
	}
	s.Client.RDB.Set(ctx, s.Client.ReplyKey(p, a, fmt.Sprint(i)), "x", time.Hour)
	fillWebhook(t, s, log, epoch, a, i)
}

// fillWebhook makes a delivery and a mail of an account, and a webhook if it has none.
func fillWebhook(t *testing.T, s *Store, log *eventlog.Log, epoch int64, a signal.AccountID, i int) {
	t.Helper()
	h, ctx, p := deliveries.New(s.Client, log), t.Context(), s.Client.Partition(a)
	list, err := h.Settings.Webhooks(ctx, a)
	if err == nil && len(list) == 0 {
		var w delivery.Webhook
		w, err = h.Settings.Register(ctx, storetest.Webhook(a), 10, nil)
		list = append(list, w)
	}
	if err != nil {
		t.Fatal(err)
	}
	batch := []delivery.EventDeliveries{{Event: signal.NewEventID(), Body: fmt.Append(nil, a, i)}}
	d := storetest.Delivery(&list[0], batch[0].Event, time.UnixMilli(int64(i+1)))
	batch[0].Deliveries = []delivery.Delivery{d}
	if err := h.Queue.StoreDeliveries(ctx, p, epoch, batch); err != nil {
		t.Fatal(err)
	}
	out := delivery.Outcomes{Account: a, Webhook: d.Webhook}
	out.Mails = []delivery.Mail{{Account: a, Webhook: d.Webhook, Tries: i}}
	if _, err := h.Queue.StoreOutcomes(ctx, p, epoch, out); err != nil {
		t.Fatal(err)
	}
}

// eraseState counts the records of an account in partition 1.
func eraseState(t *testing.T, s *Store, a signal.AccountID) map[string]int {
	t.Helper()
	ctx := t.Context()
	got := map[string]int{"open": 0, "due": 0, "jobs": 0, "replies": 0, "events": 0, "signals": 0,
		"webhooks": 0, "deliveries": 0, "bodies": 0, "mails": 0}
	got["webhooks"] = int(s.Client.RDB.HLen(ctx, s.Client.WebhooksKey(1, a)).Val())
	for _, m := range s.Client.RDB.ZRange(ctx, s.Client.WebhooksDueKey(1), 0, -1).Val() {
		if account, webhook, _ := strings.Cut(m, " "); account == string(a) {
			key := s.Client.DeliveriesKey(1, signal.WebhookID(webhook))
			got["deliveries"] += int(s.Client.RDB.HLen(ctx, key).Val())
		}
	}
	for _, body := range s.Client.RDB.HVals(ctx, s.Client.BodiesKey(1)).Val() {
		if strings.HasPrefix(body, string(a)) {
			got["bodies"]++
		}
	}
	mails, _, err := deliveries.New(s.Client, nil).Mails.DueMails(ctx, 1, s.Client.Now().Add(time.Minute), 1000)
	if n := s.Client.RDB.HLen(ctx, s.Client.MailRecordsKey(1)).Val(); err != nil || int(n) != len(mails) {
		t.Fatalf("%d mails of %d are due, %v", len(mails), n, err)
	}
	for _, m := range mails {
		if m.Account == a {
			got["mails"]++
		}
	}
	for field, value := range s.Client.RDB.HGetAll(ctx, s.Client.OpenKey(1)).Val() {
		if open, _, err := codec.DecodeOpen([]byte(field), []byte(value)); err != nil || open.Account == a {
			got["open"]++
		}
	}
	for _, m := range s.Client.RDB.ZRange(ctx, s.Client.RunsDueKey(1), 0, -1).Val() {
		if strings.HasPrefix(m, string(a)) {
			got["due"]++
		}
	}
	jobs := s.Client.RDB.ZRange(ctx, s.Client.JobsOfKey(1, a), 0, -1).Val()
	for _, id := range jobs {
		if s.Client.RDB.Exists(ctx, s.Client.JobKey(1, signal.JobID(id))).Val() == 1 {
			got["jobs"]++
		}
	}
	if s.Client.RDB.Exists(ctx, s.Client.JobsWithKey(1, a, signal.JobQueued)).Val() == 1 {
		got["jobs"]++
	}
	var node redis.Cmdable = s.Client.RDB // SCAN is asked of a single node
	if c, ok := s.Client.RDB.(*redis.ClusterClient); ok {
		node, _ = c.MasterForKey(ctx, s.Client.OpenKey(1))
	}
	replies := map[string]bool{}
	for i := node.Scan(ctx, 0, s.Client.ReplyKey(1, a, "*"), 1000).Iterator(); i.Next(ctx); {
		replies[i.Val()] = true
	}
	got["replies"] = len(replies)
	for _, e := range s.Client.RDB.XRange(ctx, s.Client.EventsKey(1), "-", "+").Val() {
		event, err := codec.DecodeEvent(signal.Position{}, []byte(e.Values["h"].(string)), nil)
		if err != nil || event.Account == a {
			got["events"]++
		}
	}
	got["blocks"] = int(s.Client.RDB.XLen(ctx, s.Client.BlocksKey(1)).Val())
	for _, e := range s.Client.RDB.XRange(ctx, s.Client.SignalsKey(1), "-", "+").Val() {
		if string(codec.RecordAccount([]byte(e.Values["h"].(string)))) == string(codec.AccountBytes(a)) {
			got["signals"]++
		}
	}
	return got
}

// A step looks at a part of a log, and the next step continues from there.
func TestLongLogIsErasedInSteps(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx, deleted, other := t.Context(), storetest.AccountIn(s.Client, 1), storetest.AccountIn(s.Client, 1)
	const each = redisclient.EraseChunk + 5
	pipe := s.Client.RDB.Pipeline()
	for range each {
		for _, a := range []signal.AccountID{deleted, other} {
			e := signal.Event{ID: signal.NewEventID(), Account: a, Type: signal.AgentStarted}
			values := []any{"h", codec.AppendEvent(nil, &e), "d", "{}"}
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: s.Client.EventsKey(1), Values: values})
		}
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		t.Fatal(err)
	}
	cursor, err := eraseEvents(ctx, s.Client, erasingOf{partition: 1, epoch: 1, account: deleted, leaves: s.Leaves}, "")
	for err == nil && cursor != "" {
		cursor, err = eraseEvents(ctx, s.Client, erasingOf{partition: 1, epoch: 1, account: deleted, leaves: s.Leaves}, cursor)
	}
	if n := s.Client.RDB.XLen(ctx, s.Client.EventsKey(1)).Val(); err != nil || n != each {
		t.Errorf("%d entries are left, %v; want the %d of the other account", n, err, each)
	}
}

// An account is erased even if the state of its erasing cannot be read.
func TestUnreadableErasingStartsAgain(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx, account := t.Context(), storetest.AccountIn(s.Client, 1)
	epoch := take(t, s, 1)
	s.Client.RDB.HSet(ctx, s.Client.EraseKey(1), string(account), "99 of another version")
	if _, err := s.Eraser.EraseStep(ctx, 1, epoch); err != nil {
		t.Fatal(err)
	}
	e, err := parseErasing(s.Client.RDB.HGet(ctx, s.Client.EraseKey(1), string(account)).Val())
	if err != nil || e.stage != 0 {
		t.Errorf("state %+v, %v; want the first stage", e, err)
	}
}

func TestErasingWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: 100 * time.Millisecond})
	server.Kill()
	_, err := s.Eraser.EraseStep(t.Context(), 1, 1)
	storetest.WantKind(t, "erase", err, signal.KindUnavailable)
}

// Cursors of a process of Redis mean nothing to the next one, so each scan begins again after a restart.
func TestErasingContinuesAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	server := redistest.NewDurable(t)
	s := openStore(t, Options{URL: server.URL(), Partitions: 4})
	ctx, deleted, other := t.Context(), storetest.AccountIn(s.Client, 1), storetest.AccountIn(s.Client, 1)
	epoch := take(t, s, 1)
	const each = 5 * redisclient.EraseChunk
	pipe := s.Client.RDB.Pipeline()
	for i := range each {
		for _, a := range []signal.AccountID{deleted, other} {
			sig := storetest.Signal(a)
			value := append([]byte("1-1 1-1 "), codec.AppendOpen(nil, sig, s.Client.Now())...)
			pipe.HSet(ctx, s.Client.OpenKey(1), codec.OpenField(sig.ID), value)
			pipe.ZAdd(ctx, s.Client.RunsDueKey(1), storetest.DueAt(s.Client.Now(), fmt.Sprint(a, " ", i)))
			pipe.Set(ctx, s.Client.ReplyKey(1, a, fmt.Sprint(i)), "x", time.Hour)
		}
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		t.Fatal(err)
	}
	w := erasingOf{partition: 1, epoch: epoch, account: deleted, leaves: s.Leaves}
	for name, stage := range map[string]eraseStage{"due": eraseDue, "open": eraseOpen, "replies": eraseReplies} {
		cursor := ""
		for step := range 1000 {
			var err error
			if cursor, err = stage(ctx, s.Client, w, cursor); err != nil {
				t.Fatal(err)
			}
			if cursor == "" {
				break
			}
			if step == 3 {
				server.Kill()
				server.Restart()
			}
		}
		if n := eraseState(t, s, deleted)[name]; cursor != "" || n != 0 {
			t.Errorf("%d %s of the deleted account are left, with cursor %q", n, name, cursor)
		}
		if n := eraseState(t, s, other)[name]; n != each {
			t.Errorf("%d %s of the other account are left, want %d", n, name, each)
		}
	}
}
