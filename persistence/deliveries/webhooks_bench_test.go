package deliveries

import (
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
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
	b.hooks = New(b.store, b.log)
	b.account = accountIn(b.store, b.p)
	b.epoch = take(t, b.store, b.p, "a", time.Hour)
	return b
}

func (b *hookBench) must(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// register stores a webhook of the account.
func (b *hookBench) register() *delivery.Webhook {
	b.Helper()
	w, err := b.hooks.Register(b.Context(), testWebhook(b.account), 100, nil)
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
	b.must("store deliveries", b.hooks.StoreDeliveries(b.Context(), b.p, b.epoch, batch))
	return list
}

// outcomes stores states after attempts, all of which must be stored.
func (b *hookBench) outcomes(w *delivery.Webhook, list ...delivery.Delivery) {
	b.Helper()
	left, err := b.hooks.StoreOutcomes(b.Context(), b.p, b.epoch, delivery.Outcomes{Account: w.Account, Webhook: w.ID, Deliveries: list})
	b.must("store outcomes", err)
	if len(left) > 0 {
		b.Fatalf("outcomes %v were left out", left)
	}
}

// stored returns a delivery as it is kept.
func (b *hookBench) stored(d delivery.Delivery) delivery.Delivery {
	b.Helper()
	got, _, err := b.hooks.Delivery(b.Context(), d.Account, d.Webhook, d.ID)
	b.must("read delivery", err)
	return got
}

// wantNothingLeft fails if the database has a key of webhooks, but for counts, which
// must all be zero.
func (b *hookBench) wantNothingLeft() {
	b.Helper()
	other := set(redisclient.EventsKey(b.p), redisclient.EpochKey(b.p), redisclient.OwnerKey(b.p), redisclient.PositionKey(b.p), redisclient.InstallationKey())
	for _, key := range b.rdb.Keys(b.Context(), "*").Val() {
		if key == redisclient.WebhookStatsKey(b.p) {
			for field, n := range b.rdb.HGetAll(b.Context(), key).Val() {
				if n != "0" {
					b.Errorf("the count of %s is %s", field, n)
				}
			}
		} else if !other[key] && b.rdb.TTL(b.Context(), key).Val() < 0 { // else that of a batch
			b.Errorf("key %q is left", key)
		}
	}
}

// erase drops what removed webhooks have left.
func (b *hookBench) erase() (steps int) {
	b.Helper()
	for more := true; more; steps++ {
		var err error
		more, err = b.hooks.EraseWebhooks(b.Context(), b.p, b.epoch)
		b.must("erase", err)
	}
	return steps
}
