package deliveries

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// hookBench is webhooks of partition 1 on a Redis of its own, and its owner's epoch.
type hookBench struct {
	*logBench
	hooks   *Store
	account signal.AccountID
	p       int
	epoch   int64
}

func newHookBench(t *testing.T) *hookBench {
	t.Helper()
	b := &hookBench{logBench: newLogBench(t), p: 1}
	b.hooks = New(b.store.Client, b.log)
	b.account = accountIn(b.store, b.p)
	b.epoch = take(t, b.store.Leases, b.p, "a", time.Hour)
	return b
}

func (b *hookBench) must(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// disabled returns w disabled at the given time.
func disabled(w delivery.Webhook, reason delivery.DisabledReason, at time.Time) delivery.Webhook {
	w.Status, w.DisabledReason, w.DisabledAt = delivery.WebhookDisabled, reason, at
	return w
}

// outcomesOf returns the outcomes of attempts of deliveries to w.
func outcomesOf(w *delivery.Webhook, list ...delivery.Delivery) delivery.Outcomes {
	return delivery.Outcomes{Account: w.Account, Webhook: w.ID, Deliveries: list}
}

// deliveriesOf returns deliveries of one event as they are stored together.
func deliveriesOf(e signal.EventID, body string, list ...delivery.Delivery) []delivery.EventDeliveries {
	return []delivery.EventDeliveries{{Event: e, Body: []byte(body), Deliveries: list}}
}

// register stores a webhook of the account.
func (b *hookBench) register() *delivery.Webhook {
	b.Helper()
	w, err := b.hooks.Settings.Register(b.Context(), testWebhook(b.account), 100, nil)
	b.must("register", err)
	return &w
}

// deliver makes a delivery of an event of its own for each time.
func (b *hookBench) deliver(w *delivery.Webhook, at ...time.Time) []delivery.Delivery {
	b.Helper()
	batch, list := make([]delivery.EventDeliveries, len(at)), make([]delivery.Delivery, len(at))
	for i := range at {
		e := signal.NewEventID()
		list[i] = testDelivery(w, e, at[i])
		batch[i] = delivery.EventDeliveries{Event: e, Body: fmt.Append(nil, "body of ", e), Deliveries: list[i : i+1]}
	}
	b.must("store deliveries", b.hooks.Queue.StoreDeliveries(b.Context(), b.p, b.epoch, batch))
	return list
}

// outcomes stores states after attempts, all of which must be stored.
func (b *hookBench) outcomes(w *delivery.Webhook, list ...delivery.Delivery) {
	b.Helper()
	b.wantLeft(nil, outcomesOf(w, list...))
}

// wantLeft stores outcomes and fails unless the ones with the given indexes are left out.
func (b *hookBench) wantLeft(want []int, out delivery.Outcomes) {
	b.Helper()
	left, err := b.hooks.Queue.StoreOutcomes(b.Context(), b.p, b.epoch, out)
	b.must("store outcomes", err)
	if d := cmp.Diff(want, left); d != "" {
		b.Fatalf("outcomes that are left out (-want +got):\n%s", d)
	}
}

// wantStats fails unless all webhooks have the given counts.
func (b *hookBench) wantStats(want delivery.WebhookStats) {
	b.Helper()
	if got, err := b.hooks.Stats.WebhookStats(b.Context()); got != want || err != nil {
		b.Errorf("counts %+v, %v; want %+v", got, err, want)
	}
}

// together carries out operations as one batch, all of which must succeed.
func (b *hookBench) together(operations ...*eventlog.Operation) {
	b.Helper()
	b.must("carry out", eventlog.Together(b.Context(), b.rdb, b.store.Keys, b.p, operations...))
	for _, o := range operations {
		if r := <-o.Done; r.Err != nil || r.Left != nil {
			b.Errorf("%+v", r)
		}
	}
}

// webhook returns a webhook as it is kept.
func (b *hookBench) webhook(id signal.WebhookID) delivery.Webhook {
	b.Helper()
	w, err := b.hooks.Settings.Webhook(b.Context(), b.account, id)
	b.must("read webhook", err)
	return w
}

// stored returns a delivery as it is kept.
func (b *hookBench) stored(d delivery.Delivery) delivery.Delivery {
	b.Helper()
	got, _, err := b.hooks.History.Delivery(b.Context(), d.Account, d.Webhook, d.ID)
	b.must("read delivery", err)
	return got
}

// wantNothingLeft fails if the database has a key of webhooks except counts, which must be zero.
func (b *hookBench) wantNothingLeft() {
	b.Helper()
	other := set(b.store.EventsKey(b.p), b.store.EpochKey(b.p), b.store.OwnerKey(b.p),
		b.store.PositionKey(b.p), b.store.InstallationKey())
	for _, key := range b.rdb.Keys(b.Context(), "*").Val() {
		if key == b.store.WebhookStatsKey(b.p) {
			for field, n := range b.rdb.HGetAll(b.Context(), key).Val() {
				if n != "0" {
					b.Errorf("the count of %s is %s", field, n)
				}
			}
		} else if !other[key] && b.rdb.TTL(b.Context(), key).Val() < 0 { // the key of a batch expires
			b.Errorf("key %q is left", key)
		}
	}
}

// erase drops what removed webhooks have left.
func (b *hookBench) erase() (steps int) {
	b.Helper()
	for more := true; more; steps++ {
		var err error
		more, err = b.hooks.Retention.EraseWebhooks(b.Context(), b.p, b.epoch)
		b.must("erase", err)
	}
	return steps
}
