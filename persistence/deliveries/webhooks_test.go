package deliveries

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

func TestRegisterKeepsTheLimit(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	var wg sync.WaitGroup
	registered := make(chan delivery.Webhook, 40)
	for range cap(registered) {
		wg.Go(func() {
			w, err := b.hooks.Register(ctx, testWebhook(b.account), 7, nil)
			if err == nil {
				registered <- w
				return
			}
			wantError(t, err, signal.KindConflict, "limit_reached")
		})
	}
	wg.Wait()
	close(registered)
	want := map[signal.WebhookID]delivery.Webhook{}
	for w := range registered {
		want[w.ID] = w
	}
	list, err := b.hooks.Webhooks(ctx, b.account)
	b.must("list webhooks", err)
	if len(want) != 7 || len(list) != 7 {
		t.Errorf("%d were registered and %d are listed, want 7", len(want), len(list))
	}
	for i, w := range list {
		if d := cmp.Diff(want[w.ID], w); d != "" {
			t.Errorf("listed (-want +got):\n%s", d)
		}
		if i > 0 && w.ID > list[i-1].ID {
			t.Errorf("%s is listed behind %s, which is older", w.ID, list[i-1].ID)
		}
	}
	if events := b.eventsOf(b.account); len(events) != 7 || events[0].Type != signal.WebhookChanged || want[signal.WebhookID(events[0].Subject)].ID == "" {
		t.Errorf("announced: %+v", events)
	}
	b.rdb.HSet(ctx, redisclient.WebhooksKey(b.p, b.account), string(list[0].ID), "damaged")
	if list, err := b.hooks.Webhooks(ctx, b.account); len(list) != 6 || err != nil {
		t.Errorf("with a damaged one: %d are listed, %v", len(list), err)
	}
	if _, err := b.hooks.Webhook(ctx, b.account, list[0].ID); err == nil || signal.KindOf(err) == signal.KindNotFound {
		t.Errorf("a damaged one is read: %v", err)
	}
	b.must("remove the damaged one", b.hooks.RemoveWebhook(ctx, b.account, list[0].ID))
}

// Two change a webhook that both have read: the second is refused and reads anew.
func TestChangeWebhook(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	description := "described"
	first, second := *w, *w
	first.Description, first.PreviousSecret, first.PreviousUntil = &description, []byte{0, 1}, milli(9)
	changed, err := b.hooks.ChangeWebhook(ctx, first, false)
	b.must("change", err)
	if changed.Revision == w.Revision || changed.UpdatedAt.Before(w.UpdatedAt) {
		t.Errorf("changed to %+v", changed)
	}
	second.Status, second.DisabledReason, second.DisabledAt = delivery.WebhookDisabled, delivery.DisabledManual, milli(5)
	_, err = b.hooks.ChangeWebhook(ctx, second, false)
	wantError(t, err, signal.KindConflict, "webhook_changed")
	got, err := b.hooks.Webhook(ctx, b.account, w.ID)
	b.must("read", err)
	if d := cmp.Diff(changed, got); d != "" {
		t.Errorf("read (-want +got):\n%s", d)
	}
	got.Status, got.DisabledReason, got.DisabledAt = delivery.WebhookDisabled, delivery.DisabledManual, milli(5)
	_, err = b.hooks.ChangeWebhook(ctx, got, false)
	b.must("disable", err)
	if stats, err := b.hooks.WebhookStats(ctx); stats != (delivery.WebhookStats{Disabled: 1}) || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}
	got, err = b.hooks.Webhook(ctx, b.account, w.ID)
	b.must("read", err)
	if got.Since != w.Since {
		t.Errorf("disabled it gets events from %s on, want %s", got.Since, w.Since)
	}
	got.Status, got.DisabledReason, got.DisabledAt = delivery.WebhookEnabled, "", time.Time{}
	changed, err = b.hooks.ChangeWebhook(ctx, got, true)
	b.must("enable", err)
	got, err = b.hooks.Webhook(ctx, b.account, w.ID)
	if d := cmp.Diff(changed, got); d != "" || err != nil {
		t.Errorf("enabled: %v (-want +got):\n%s", err, d)
	}
	events := b.eventsOf(b.account)
	if first, last := events[0].Position, events[len(events)-1].Position; w.Since != first || got.Since != last {
		t.Errorf("it gets events from %s, then %s on; want %s, %s: where it was registered and enabled", w.Since, got.Since, first, last)
	}
	_, err = b.hooks.Webhook(ctx, accountIn(b.store, b.p), w.ID)
	wantKind(t, "the webhook of another account", err, signal.KindNotFound)
	wantKind(t, "removing that of another account", b.hooks.RemoveWebhook(ctx, accountIn(b.store, b.p), w.ID), signal.KindNotFound)
}

// What an owner stores late about an endpoint does not count against a webhook that was
// enabled meanwhile.
func TestHealthFromBeforeEnablingCountsNoMore(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	health := func(h delivery.WebhookHealth) delivery.WebhookHealth {
		t.Helper()
		_, err := b.hooks.StoreOutcomes(ctx, b.p, b.epoch, delivery.Outcomes{Account: b.account, Webhook: w.ID, Health: &h})
		b.must("store health", err)
		got, err := b.hooks.Webhook(ctx, b.account, w.ID)
		b.must("read", err)
		list, err := b.hooks.Webhooks(ctx, b.account)
		if err != nil || len(list) != 1 || list[0].Health != got.Health {
			t.Errorf("listed %+v, %v; want the health %+v", list, err, got.Health)
		}
		return got.Health
	}
	failing := delivery.WebhookHealth{FailingSince: milli(0), Failures: 4, Warned: 1}
	if got := health(failing); got != failing {
		t.Errorf("health %+v, want %+v", got, failing)
	}
	_, err := b.hooks.ChangeWebhook(ctx, *w, true)
	b.must("enable", err)
	failing.Failures++
	if got := health(failing); got != (delivery.WebhookHealth{}) {
		t.Errorf("health %+v after enabling, want none", got)
	}
	later := delivery.WebhookHealth{FailingSince: b.store.Now().Add(time.Minute).Truncate(time.Millisecond), Failures: 1}
	if got := health(later); got != later {
		t.Errorf("health %+v, want %+v", got, later)
	}
}

func TestWebhookStatsOfAllPartitions(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	if stats, err := b.hooks.WebhookStats(ctx); stats != (delivery.WebhookStats{}) || err != nil {
		t.Errorf("of nothing: %+v, %v", stats, err)
	}
	one := b.register()
	b.account = accountIn(b.store, 3)
	two := b.register()
	b.must("test", b.hooks.CreateDelivery(ctx, testDelivery(one, signal.NewEventID(), milli(7)), nil))
	b.must("test", b.hooks.CreateDelivery(ctx, testDelivery(two, signal.NewEventID(), milli(5)), nil))
	want := delivery.WebhookStats{Pending: 2, Enabled: 2, OldestDue: milli(5)}
	if stats, err := b.hooks.WebhookStats(ctx); stats != want || err != nil {
		t.Errorf("counts %+v, %v; want %+v", stats, err, want)
	}
	if accounts, err := b.hooks.AccountsWithWebhooks(ctx, 3); len(accounts) != 1 || accounts[0] != b.account || err != nil {
		t.Errorf("accounts of partition 3: %v, %v", accounts, err)
	}
	if accounts, err := b.hooks.AccountsWithWebhooks(ctx, 2); len(accounts) != 0 || err != nil {
		t.Errorf("accounts of partition 2: %v, %v", accounts, err)
	}
}

// An endpoint has failed for too long: its webhook is disabled, and its account hears
// of it. If somebody has changed it meanwhile, nothing of that is stored.
func TestOutcomesDisableAWebhook(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	d := b.deliver(w, milli(1))[0]
	disabled := *w
	disabled.Status, disabled.DisabledReason, disabled.DisabledAt, disabled.UpdatedAt = delivery.WebhookDisabled, delivery.DisabledFailing, milli(9), milli(9)
	out := delivery.Outcomes{Account: b.account, Webhook: w.ID, Deliveries: []delivery.Delivery{attempt(d, 500, milli(9), time.Time{})},
		Health: &delivery.WebhookHealth{FailingSince: milli(1), Failures: 5}, Disabled: &disabled,
		Event: &signal.Event{ID: signal.NewEventID(), Type: signal.SystemNotification, Data: []byte(`{"message":"disabled"}`)},
		Mails: []delivery.Mail{{Kind: delivery.MailWebhookDisabled, Account: b.account, Webhook: w.ID, URL: w.URL, Since: milli(1), At: milli(9), Error: "status 500"}}}

	changed, err := b.hooks.ChangeWebhook(ctx, *w, false)
	b.must("change meanwhile", err)
	before := len(b.eventsOf(b.account))
	_, err = b.hooks.StoreOutcomes(ctx, b.p, b.epoch, out)
	wantError(t, err, signal.KindConflict, "webhook_changed")
	if got := b.stored(d); got.Status != delivery.Pending || len(b.eventsOf(b.account)) != before || b.rdb.Exists(ctx, redisclient.MailsKey(b.p)).Val() != 0 {
		t.Errorf("a part of what was refused is stored: %+v", got)
	}

	disabled.Revision = changed.Revision
	_, err = b.hooks.StoreOutcomes(ctx, b.p, b.epoch, out)
	b.must("disable", err)
	got, err := b.hooks.Webhook(ctx, b.account, w.ID)
	b.must("read", err)
	if got.Status != delivery.WebhookDisabled || got.DisabledReason != delivery.DisabledFailing || !got.DisabledAt.Equal(milli(9)) || got.Health != *out.Health {
		t.Errorf("disabled: %+v", got)
	}
	events := b.eventsOf(b.account)[before:]
	if len(events) != 2 || events[0].Type != signal.WebhookChanged || events[0].Subject != string(w.ID) || events[1].ID != out.Event.ID ||
		events[1].Account != b.account || events[1].Type != signal.SystemNotification {
		t.Errorf("announced %+v", events)
	}
	mails, _, err := b.hooks.DueMails(ctx, b.p, b.store.Now().Add(time.Second), 10)
	if err != nil || len(mails) != 1 {
		t.Fatalf("mails %+v, %v", mails, err)
	}
	out.Mails[0].ID = mails[0].ID
	if d := cmp.Diff(out.Mails, mails); d != "" {
		t.Errorf("mails (-want +got):\n%s", d)
	}
	if stats, err := b.hooks.WebhookStats(ctx); stats != (delivery.WebhookStats{Disabled: 1}) || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}
	// Who does not know whether it was stored sends it again without the record.
	out.Disabled, out.Event = nil, nil
	if left, err := b.hooks.StoreOutcomes(ctx, b.p, b.epoch, out); len(left) != 1 || err != nil {
		t.Errorf("again: %v are left out, %v", left, err)
	}
	if n := b.rdb.ZCard(ctx, redisclient.MailsKey(b.p)).Val(); n != 1 {
		t.Errorf("%d mails after repeating, want 1", n)
	}
}

func TestMails(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	out := delivery.Outcomes{Account: b.account, Webhook: w.ID}
	for i := range 3 {
		out.Mails = append(out.Mails, delivery.Mail{Kind: delivery.MailWebhookFailing, Account: b.account, Webhook: w.ID, URL: w.URL, At: milli(int64(i))})
	}
	_, err := b.hooks.StoreOutcomes(ctx, b.p, b.epoch, out)
	b.must("store mails", err)
	now := b.store.Now().Add(time.Second)
	due := func(until time.Time, limit, want int) []delivery.Mail {
		t.Helper()
		mails, _, err := b.hooks.DueMails(ctx, b.p, until, limit)
		if err != nil || len(mails) != want {
			t.Fatalf("mails until %v: %+v, %v; want %d", until, mails, err, want)
		}
		return mails
	}
	due(now.Add(-time.Minute), 10, 0)
	due(now, 2, 2)
	mails := due(now, 10, 3)
	b.must("sent", b.hooks.StoreMailOutcome(ctx, b.p, b.epoch, mails[0], time.Time{}))
	again := now.Add(time.Hour).Truncate(time.Millisecond)
	b.must("not sent", b.hooks.StoreMailOutcome(ctx, b.p, b.epoch, mails[1], again))
	wantError(t, b.hooks.StoreMailOutcome(ctx, b.p, b.epoch-1, mails[2], time.Time{}), signal.KindConflict, "not_owner")
	if got, next, err := b.hooks.DueMails(ctx, b.p, now, 10); len(got) != 1 || got[0] != mails[2] || !next.Equal(again) || err != nil {
		t.Errorf("due: %+v, next %v, %v; want the third one, next %v", got, next, err, again)
	}
	// What was removed meanwhile does not come back.
	b.must("late", b.hooks.StoreMailOutcome(ctx, b.p, b.epoch, mails[0], now))
	want := mails[1]
	want.Tries++
	b.rdb.HSet(ctx, redisclient.MailRecordsKey(b.p), mails[2].ID, "damaged")
	if got := due(again, 10, 1); got[0] != want {
		t.Errorf("due later: %+v, want %+v", got[0], want)
	}
	b.must("given up", b.hooks.StoreMailOutcome(ctx, b.p, b.epoch, want, time.Time{}))
	wantPostponed(t, b.store.RDB, redisclient.MailsKey(b.p), mails[2].ID, again)
	if n := b.rdb.HLen(ctx, redisclient.MailRecordsKey(b.p)).Val(); n != 1 {
		t.Errorf("%d records of mails are left, want the damaged one", n)
	}
	b.rdb.HDel(ctx, redisclient.MailRecordsKey(b.p), mails[2].ID)
	due(again.Add(2*redisclient.UnreadableAfter), 10, 0) // without a record, its entry goes
	if n := b.rdb.Exists(ctx, redisclient.MailsKey(b.p), redisclient.MailRecordsKey(b.p)).Val(); n != 0 {
		t.Errorf("%d keys of mails are left", n)
	}
}

// Without Redis nothing is known, and nothing is said to be absent.
func TestWebhooksWithoutRedis(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	d := b.deliver(w, milli(1))[0]
	b.server.Kill()
	calls := map[string]func() error{
		"webhook":  func() error { _, err := b.hooks.Webhook(ctx, b.account, w.ID); return err },
		"webhooks": func() error { _, err := b.hooks.Webhooks(ctx, b.account); return err },
		"remove":   func() error { return b.hooks.RemoveWebhook(ctx, b.account, w.ID) },
		"accounts": func() error { _, err := b.hooks.AccountsWithWebhooks(ctx, b.p); return err },
		"counts":   func() error { _, err := b.hooks.WebhookStats(ctx); return err },
		"delivery": func() error { _, _, err := b.hooks.Delivery(ctx, b.account, w.ID, d.ID); return err },
		"list": func() error {
			_, _, err := b.hooks.Deliveries(ctx, b.account, w.ID, delivery.Query{Limit: 1})
			return err
		},
		"list pending": func() error {
			_, _, err := b.hooks.Deliveries(ctx, b.account, w.ID, delivery.Query{Limit: 1, Status: delivery.Pending})
			return err
		},
		"list a type": func() error {
			_, _, err := b.hooks.Deliveries(ctx, b.account, w.ID, delivery.Query{Limit: 1, Type: signal.SignalCreated})
			return err
		},
		"cancel": func() error { _, err := b.hooks.CancelDelivery(ctx, b.account, w.ID, d.ID); return err },
		"retry all": func() error {
			_, err := b.hooks.RetryDeliveries(ctx, b.account, w.ID, delivery.RetryQuery{})
			return err
		},
		"cancel all":   func() error { _, err := b.hooks.CancelDeliveries(ctx, b.account, w.ID); return err },
		"due webhooks": func() error { _, err := b.hooks.DueEndpoints(ctx, b.p, milli(9), 0, 9); return err },
		"due": func() error {
			_, _, err := b.hooks.DueDeliveries(ctx, b.p, b.account, w.ID, milli(9), 9, nil)
			return err
		},
		"mails": func() error { _, _, err := b.hooks.DueMails(ctx, b.p, milli(9), 9); return err },
		"prune": func() error { _, err := b.hooks.PruneDeliveries(ctx, b.p, b.epoch, w.ID, time.Hour, 1, 0); return err },
		"erase": func() error { _, err := b.hooks.EraseWebhooks(ctx, b.p, b.epoch); return err },
	}
	for name, call := range calls {
		if err := call(); signal.KindOf(err) != signal.KindUnavailable || errors.Is(err, errNoWebhook) {
			t.Errorf("%s: %v, want KindUnavailable", name, err)
		}
	}
}

// An account has a URL once, however its webhooks come to it.
func TestAURLIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx, first, second := b.Context(), b.register(), b.register()
	again := testWebhook(b.account)
	again.URL = first.URL
	_, err := b.hooks.Register(ctx, again, 100, nil)
	wantError(t, err, signal.KindInvalid, signal.CodeDuplicateURL)
	changed := *second
	changed.URL = first.URL
	_, err = b.hooks.ChangeWebhook(ctx, changed, false)
	wantError(t, err, signal.KindInvalid, signal.CodeDuplicateURL)
	wantError(t, b.hooks.CheckRegistration(ctx, &again, 100), signal.KindInvalid, signal.CodeDuplicateURL)
	wantError(t, b.hooks.CheckRegistration(ctx, &changed, 100), signal.KindInvalid, signal.CodeDuplicateURL)
	changed = *first
	changed.Events = []signal.EventType{signal.SignalClosed}
	_, err = b.hooks.ChangeWebhook(ctx, changed, false)
	b.must("change another member", err)

	another := testWebhook(b.account)
	wantError(t, b.hooks.CheckRegistration(ctx, &another, 2), signal.KindConflict, "limit_reached")
	b.must("check one that may be registered", b.hooks.CheckRegistration(ctx, &another, 3))
	changed.URL = another.URL
	b.must("check one of as many as there may be", b.hooks.CheckRegistration(ctx, &changed, 2))

	// Of many at once one succeeds.
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			w := testWebhook(b.account)
			w.URL = "https://example.com/same"
			if _, err := b.hooks.Register(ctx, w, 100, nil); err == nil {
				made.Add(1)
			} else if signal.CodeOf(err) != signal.CodeDuplicateURL {
				t.Errorf("register: %v", err)
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d webhooks have one URL", n)
	}
	other := testWebhook(accountIn(b.store, b.p))
	other.URL = first.URL
	_, err = b.hooks.Register(ctx, other, 100, nil)
	b.must("register for another account", err)
}
