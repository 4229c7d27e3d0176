package deliveries

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

func TestRegisterKeepsTheLimit(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	var wg sync.WaitGroup
	registered := make(chan delivery.Webhook, 40)
	for range cap(registered) {
		wg.Go(func() {
			w, err := b.hooks.Settings.Register(ctx, testWebhook(b.account), 7, nil)
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
	list, err := b.hooks.Settings.Webhooks(ctx, b.account)
	b.must("list webhooks", err)
	if len(want) != 7 || len(list) != 7 {
		t.Errorf("%d were registered and %d are listed, want 7", len(want), len(list))
	}
	for i, w := range list {
		wantEqual(t, "listed", nil, want[w.ID], w)
		if i > 0 && w.ID > list[i-1].ID {
			t.Errorf("%s is listed after %s, which is older", w.ID, list[i-1].ID)
		}
	}
	events := b.eventsOf(b.account)
	if len(events) != 7 || events[0].Type != signal.WebhookChanged ||
		want[signal.WebhookID(events[0].Subject)].ID == "" {
		t.Errorf("announced: %+v", events)
	}
	b.rdb.HSet(ctx, b.store.WebhooksKey(b.p, b.account), string(list[0].ID), "damaged")
	if list, err := b.hooks.Settings.Webhooks(ctx, b.account); len(list) != 6 || err != nil {
		t.Errorf("with a damaged one: %d are listed, %v", len(list), err)
	}
	if _, err := b.hooks.Settings.Webhook(ctx, b.account, list[0].ID); err == nil || signal.KindOf(err) == signal.KindNotFound {
		t.Errorf("a damaged one is read: %v", err)
	}
	b.must("remove the damaged one", b.hooks.Settings.RemoveWebhook(ctx, b.account, list[0].ID))
}

// Of two changes of a webhook as both callers have read it, the second is refused.
func TestChangeWebhook(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	description := "described"
	first, second := *w, disabled(*w, delivery.DisabledManual, milli(5))
	first.Description, first.PreviousSecret, first.PreviousUntil = &description, []byte{0, 1}, milli(9)
	changed, err := b.hooks.Settings.ChangeWebhook(ctx, first, false)
	b.must("change", err)
	if changed.Revision == w.Revision || changed.UpdatedAt.Before(w.UpdatedAt) {
		t.Errorf("changed to %+v", changed)
	}
	_, err = b.hooks.Settings.ChangeWebhook(ctx, second, false)
	wantError(t, err, signal.KindConflict, "webhook_changed")
	got := b.webhook(w.ID)
	wantEqual(t, "read", nil, changed, got)
	_, err = b.hooks.Settings.ChangeWebhook(ctx, disabled(got, delivery.DisabledManual, milli(5)), false)
	b.must("disable", err)
	b.wantStats(delivery.WebhookStats{Disabled: 1})
	got = b.webhook(w.ID)
	if got.Since != w.Since {
		t.Errorf("disabled it gets events from %s on, want %s", got.Since, w.Since)
	}
	got.Status, got.DisabledReason, got.DisabledAt = delivery.WebhookEnabled, "", time.Time{}
	changed, err = b.hooks.Settings.ChangeWebhook(ctx, got, true)
	b.must("enable", err)
	got = b.webhook(w.ID)
	wantEqual(t, "enabled", nil, changed, got)
	events := b.eventsOf(b.account)
	if first, last := events[0].Position, events[len(events)-1].Position; w.Since != first || got.Since != last {
		t.Errorf("it gets events from %s, then %s on; want %s and %s", w.Since, got.Since, first, last)
	}
	another := accountIn(b.store, b.p)
	_, err = b.hooks.Settings.Webhook(ctx, another, w.ID)
	wantKind(t, "the webhook of another account", err, signal.KindNotFound)
	wantKind(t, "removing it", b.hooks.Settings.RemoveWebhook(ctx, another, w.ID), signal.KindNotFound)
}

// The health that an owner stores late does not count against a webhook that was enabled meanwhile.
func TestLateHealthIsIgnored(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	store := func(h, want delivery.WebhookHealth) {
		t.Helper()
		b.wantLeft(nil, delivery.Outcomes{Account: b.account, Webhook: w.ID, Health: &h})
		if got := b.webhook(w.ID).Health; got != want {
			t.Errorf("health %+v, want %+v", got, want)
		}
		list, err := b.hooks.Settings.Webhooks(ctx, b.account)
		if err != nil || len(list) != 1 || list[0].Health != want {
			t.Errorf("listed %+v, %v; want the health %+v", list, err, want)
		}
	}
	failing := delivery.WebhookHealth{FailingSince: milli(0), Failures: 4, Warned: 1}
	store(failing, failing)
	_, err := b.hooks.Settings.ChangeWebhook(ctx, *w, true)
	b.must("enable", err)
	failing.Failures++
	store(failing, delivery.WebhookHealth{})
	later := b.store.Now().Add(time.Minute).Truncate(time.Millisecond)
	failing = delivery.WebhookHealth{FailingSince: later, Failures: 1, HeldUntil: later.Add(time.Minute)}
	store(failing, failing)
	held := delivery.WebhookHealth{HeldUntil: later} // a request that began before the wait has succeeded
	store(held, held)
}

func TestWebhookStatsOfAllPartitions(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	b.wantStats(delivery.WebhookStats{})
	one := b.register()
	b.account = accountIn(b.store, 3)
	two := b.register()
	b.must("test", b.hooks.Changes.CreateDelivery(ctx, testDelivery(one, signal.NewEventID(), milli(7)), nil))
	b.must("test", b.hooks.Changes.CreateDelivery(ctx, testDelivery(two, signal.NewEventID(), milli(5)), nil))
	b.wantStats(delivery.WebhookStats{Pending: 2, Enabled: 2, OldestDue: milli(5)})
	for p, want := range map[int][]signal.AccountID{3: {b.account}, 2: nil} {
		if accounts, err := b.hooks.Settings.AccountsWithWebhooks(ctx, p); !slices.Equal(accounts, want) || err != nil {
			t.Errorf("accounts of partition %d: %v, %v; want %v", p, accounts, err, want)
		}
	}
}

// A receiver that asks for a wait, or has a rate, does not make deliveries late.
func TestWaitingIsNoLag(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	ago := func(d time.Duration) time.Time { return b.store.Now().Add(-d).Truncate(time.Millisecond) }
	pending := int64(0)
	due := func(at time.Time, perMinute int, format delivery.Format, held time.Time) *delivery.Webhook {
		t.Helper()
		w := b.register()
		w.MaxPerMinute, w.Format = perMinute, format
		changed, err := b.hooks.Settings.ChangeWebhook(ctx, *w, false)
		b.must("change", err)
		b.wantLeft(nil, delivery.Outcomes{Account: b.account, Webhook: w.ID,
			Health: &delivery.WebhookHealth{FailingSince: at, Failures: 1, HeldUntil: held}})
		b.must("test", b.hooks.Changes.CreateDelivery(ctx, testDelivery(w, signal.NewEventID(), at), nil))
		pending++
		return &changed
	}
	want := func(oldest time.Time) {
		t.Helper()
		b.wantStats(delivery.WebhookStats{Pending: pending, Enabled: pending, OldestDue: oldest})
	}
	due(ago(3*time.Hour), 60_000, "", time.Time{})
	due(ago(3*time.Hour), 0, delivery.Slack, time.Time{})
	due(ago(2*time.Hour), 0, "", ago(-time.Minute))
	want(time.Time{})
	ended := ago(50 * time.Minute)
	due(ago(time.Hour), 0, "", ended)
	want(ended)
	recent := ago(55 * time.Minute)
	due(recent, 0, "", ago(time.Hour))
	want(recent)
}

// A webhook whose endpoint has failed for too long is disabled, and its account is notified. If it
// was changed meanwhile, none of that is stored.
func TestOutcomesDisableWebhook(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	d := b.deliver(w, milli(1))[0]
	after := disabled(*w, delivery.DisabledFailing, milli(9))
	after.UpdatedAt = milli(9)
	out := outcomesOf(w, attempt(d, 500, milli(9), time.Time{}))
	out.Disabled, out.Health = &after, &delivery.WebhookHealth{FailingSince: milli(1), Failures: 5}
	out.Event = &signal.Event{ID: signal.NewEventID(), Type: signal.SystemNotification, Data: []byte("{}")}
	out.Mails = []delivery.Mail{{Kind: delivery.MailWebhookDisabled, Account: b.account, Webhook: w.ID, URL: w.URL,
		Since: milli(1), At: milli(9), Error: "status 500"}}

	changed, err := b.hooks.Settings.ChangeWebhook(ctx, *w, false)
	b.must("change meanwhile", err)
	before := len(b.eventsOf(b.account))
	_, err = b.hooks.Queue.StoreOutcomes(ctx, b.p, b.epoch, out)
	wantError(t, err, signal.KindConflict, "webhook_changed")
	mailed := b.rdb.Exists(ctx, b.store.MailsKey(b.p)).Val() != 0
	if got := b.stored(d); got.Status != delivery.Pending || len(b.eventsOf(b.account)) != before || mailed {
		t.Errorf("a part of the refused operation is stored: %+v", got)
	}

	after.Revision = changed.Revision
	b.wantLeft(nil, out)
	want := after
	want.Health = *out.Health
	if diff := cmp.Diff(want, b.webhook(w.ID), cmpopts.IgnoreFields(want, "Revision")); diff != "" {
		t.Errorf("disabled (-want +got):\n%s", diff)
	}
	events := b.eventsOf(b.account)[before:]
	if len(events) != 2 || events[0].Type != signal.WebhookChanged || events[0].Subject != string(w.ID) ||
		events[1].ID != out.Event.ID || events[1].Account != b.account || events[1].Type != signal.SystemNotification {
		t.Errorf("announced %+v", events)
	}
	mails, _, err := b.hooks.Mails.DueMails(ctx, b.p, b.store.Now().Add(time.Second), 10)
	if err != nil || len(mails) != 1 {
		t.Fatalf("mails %+v, %v", mails, err)
	}
	out.Mails[0].ID = mails[0].ID
	wantEqual(t, "mails", nil, out.Mails, mails)
	b.wantStats(delivery.WebhookStats{Disabled: 1})
	// An owner that does not know the outcome repeats it without the record.
	out.Disabled, out.Event = nil, nil
	b.wantLeft([]int{0}, out)
	if n := b.rdb.ZCard(ctx, b.store.MailsKey(b.p)).Val(); n != 1 {
		t.Errorf("%d mails after repeating, want 1", n)
	}
}

func TestMails(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	out := outcomesOf(w)
	for i := range 3 {
		m := delivery.Mail{Kind: delivery.MailWebhookFailing, Account: b.account, Webhook: w.ID, At: milli(int64(i))}
		out.Mails = append(out.Mails, m)
	}
	b.wantLeft(nil, out)
	now := b.store.Now().Add(time.Second)
	due := func(until time.Time, limit, want int) []delivery.Mail {
		t.Helper()
		mails, _, err := b.hooks.Mails.DueMails(ctx, b.p, until, limit)
		if err != nil || len(mails) != want {
			t.Fatalf("mails until %v: %+v, %v; want %d", until, mails, err, want)
		}
		return mails
	}
	due(now.Add(-time.Minute), 10, 0)
	due(now, 2, 2)
	mails := due(now, 10, 3)
	b.must("sent", b.hooks.Mails.StoreMailOutcome(ctx, b.p, b.epoch, mails[0], time.Time{}))
	again := now.Add(time.Hour).Truncate(time.Millisecond)
	b.must("not sent", b.hooks.Mails.StoreMailOutcome(ctx, b.p, b.epoch, mails[1], again))
	wantError(t, b.hooks.Mails.StoreMailOutcome(ctx, b.p, b.epoch-1, mails[2], time.Time{}), signal.KindConflict, "not_owner")
	got, next, err := b.hooks.Mails.DueMails(ctx, b.p, now, 10)
	if len(got) != 1 || got[0] != mails[2] || !next.Equal(again) || err != nil {
		t.Errorf("due: %+v, next %v, %v; want the third one, next %v", got, next, err, again)
	}
	// A mail that was removed meanwhile stays removed.
	b.must("late", b.hooks.Mails.StoreMailOutcome(ctx, b.p, b.epoch, mails[0], now))
	want := mails[1]
	want.Tries++
	b.rdb.HSet(ctx, b.store.MailRecordsKey(b.p), mails[2].ID, "damaged")
	if got := due(again, 10, 1); got[0] != want {
		t.Errorf("due later: %+v, want %+v", got[0], want)
	}
	b.must("given up", b.hooks.Mails.StoreMailOutcome(ctx, b.p, b.epoch, want, time.Time{}))
	wantPostponed(t, b.store.RDB, b.store.MailsKey(b.p), mails[2].ID, again)
	if n := b.rdb.HLen(ctx, b.store.MailRecordsKey(b.p)).Val(); n != 1 {
		t.Errorf("%d records of mails are left, want the damaged one", n)
	}
	b.rdb.HDel(ctx, b.store.MailRecordsKey(b.p), mails[2].ID)
	due(again.Add(2*redisclient.UnreadableAfter), 10, 0) // without a record, its entry is removed
	if n := b.rdb.Exists(ctx, b.store.MailsKey(b.p), b.store.MailRecordsKey(b.p)).Val(); n != 0 {
		t.Errorf("%d keys of mails are left", n)
	}
}

// Without Redis every call is KindUnavailable, and none is KindNotFound.
func TestWebhooksWithoutRedis(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	hook := b.register()
	d := b.deliver(hook, milli(1))[0]
	h, p, a, w, all := b.hooks, b.p, b.account, hook.ID, delivery.Query{Limit: 1}
	pending, created := all, all
	pending.Status, created.Type = delivery.Pending, signal.SignalCreated
	b.server.Kill()
	calls := map[string]func() error{
		"webhook":      func() error { _, err := h.Settings.Webhook(ctx, a, w); return err },
		"webhooks":     func() error { _, err := h.Settings.Webhooks(ctx, a); return err },
		"remove":       func() error { return h.Settings.RemoveWebhook(ctx, a, w) },
		"accounts":     func() error { _, err := h.Settings.AccountsWithWebhooks(ctx, p); return err },
		"counts":       func() error { _, err := h.Stats.WebhookStats(ctx); return err },
		"delivery":     func() error { _, _, err := h.History.Delivery(ctx, a, w, d.ID); return err },
		"list":         func() error { _, _, err := h.History.Deliveries(ctx, a, w, all); return err },
		"list pending": func() error { _, _, err := h.History.Deliveries(ctx, a, w, pending); return err },
		"list a type":  func() error { _, _, err := h.History.Deliveries(ctx, a, w, created); return err },
		"cancel":       func() error { _, err := h.Changes.CancelDelivery(ctx, a, w, d.ID); return err },
		"retry all":    func() error { _, err := h.Changes.RetryDeliveries(ctx, a, w, delivery.RetryQuery{}); return err },
		"cancel all":   func() error { _, err := h.Changes.CancelDeliveries(ctx, a, w); return err },
		"due webhooks": func() error { _, err := h.Queue.DueEndpoints(ctx, p, milli(9), 0, 9); return err },
		"due":          func() error { _, _, err := h.Queue.DueDeliveries(ctx, p, a, w, milli(9), 9, nil); return err },
		"mails":        func() error { _, _, err := h.Mails.DueMails(ctx, p, milli(9), 9); return err },
		"prune":        func() error { _, err := h.Retention.PruneDeliveries(ctx, p, b.epoch, w, time.Hour, 1, 0); return err },
		"erase":        func() error { _, err := h.Retention.EraseWebhooks(ctx, p, b.epoch); return err },
	}
	for name, call := range calls {
		err := call()
		if wantKind(t, name, err, signal.KindUnavailable); errors.Is(err, errNoWebhook) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An account has a URL once, whether webhooks are registered or changed.
func TestURLIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx, first, second := b.Context(), b.register(), b.register()
	again := testWebhook(b.account)
	again.URL = first.URL
	_, err := b.hooks.Settings.Register(ctx, again, 100, nil)
	wantError(t, err, signal.KindInvalid, signal.CodeDuplicateURL)
	changed := *second
	changed.URL = first.URL
	_, err = b.hooks.Settings.ChangeWebhook(ctx, changed, false)
	wantError(t, err, signal.KindInvalid, signal.CodeDuplicateURL)
	wantError(t, b.hooks.Settings.CheckRegistration(ctx, &again, 100), signal.KindInvalid, signal.CodeDuplicateURL)
	wantError(t, b.hooks.Settings.CheckRegistration(ctx, &changed, 100), signal.KindInvalid, signal.CodeDuplicateURL)
	changed = *first
	changed.Events = []signal.EventType{signal.SignalClosed}
	_, err = b.hooks.Settings.ChangeWebhook(ctx, changed, false)
	b.must("change another member", err)

	another := testWebhook(b.account)
	wantError(t, b.hooks.Settings.CheckRegistration(ctx, &another, 2), signal.KindConflict, "limit_reached")
	b.must("check one that may be registered", b.hooks.Settings.CheckRegistration(ctx, &another, 3))
	changed.URL = another.URL
	b.must("check one of as many as there may be", b.hooks.Settings.CheckRegistration(ctx, &changed, 2))

	// Of many at once one succeeds.
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			w := testWebhook(b.account)
			w.URL = "https://example.com/same"
			if _, err := b.hooks.Settings.Register(ctx, w, 100, nil); err == nil {
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
	_, err = b.hooks.Settings.Register(ctx, other, 100, nil)
	b.must("register for another account", err)
}
