package deliveries

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// TestAllDeliveriesMergeThoseOfEachWebhook, whatever the filter and the page.
func TestAllDeliveriesMergeThoseOfEachWebhook(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	if list, total, err := b.hooks.History.AllDeliveries(t.Context(), b.account, delivery.Query{Limit: 5}); err != nil ||
		len(list) != 0 || total != 0 {
		t.Errorf("without webhooks: %v %d %v", list, total, err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	hooks := []*delivery.Webhook{b.register(), b.register(), b.register()}
	for i, n := range []int{memberChunk + 300, 40, 0} {
		for range n {
			d := b.deliver(hooks[i], milli(int64(r.IntN(5_000))))[0]
			switch r.IntN(3) {
			case 0:
				b.outcomes(hooks[i], attempt(d, 200, d.CreatedAt, time.Time{}))
			case 1:
				b.outcomes(hooks[i], attempt(d, 500, d.CreatedAt, time.Time{}))
			}
		}
	}
	for _, status := range []delivery.Status{"", delivery.Pending, delivery.Succeeded, delivery.Failed} {
		for _, kind := range []signal.EventType{"", signal.SignalCreated, signal.WebhookTest} {
			checkMerged(b, hooks, delivery.Query{Status: status, Type: kind})
		}
	}
	b.must("remove", b.hooks.Settings.RemoveWebhook(t.Context(), b.account, hooks[0].ID))
	checkMerged(b, hooks[1:], delivery.Query{})
	if list, total, err := b.hooks.History.AllDeliveries(t.Context(), accountIn(b.store, b.p), delivery.Query{Limit: 5}); err !=
		nil || len(list) != 0 || total != 0 {
		t.Errorf("another account: %v %d %v", list, total, err)
	}
}

// checkMerged compares pages of q with the whole lists of each webhook.
func checkMerged(b *hookBench, hooks []*delivery.Webhook, q delivery.Query) {
	b.Helper()
	left := map[signal.WebhookID][]delivery.Delivery{}
	all := 0
	for _, w := range hooks {
		whole := q
		whole.Limit = 2 * memberChunk
		list, n, err := b.hooks.History.Deliveries(b.Context(), b.account, w.ID, whole)
		b.must("list", err)
		left[w.ID] = list
		all += n
	}
	var want []delivery.Delivery
	for range all {
		var first *delivery.Delivery
		for _, list := range left {
			if len(list) > 0 && (first == nil || newer(&list[0], first)) {
				first = &list[0]
			}
		}
		want = append(want, *first)
		left[first.Webhook] = left[first.Webhook][1:]
	}
	for _, offset := range []int{0, 7, memberChunk - 10, memberChunk + 1, all - 3, all, all + 5} {
		q.Offset, q.Limit = max(offset, 0), 25
		got, total, err := b.hooks.History.AllDeliveries(b.Context(), b.account, q)
		page := want[min(q.Offset, all):min(q.Offset+q.Limit, all)]
		if d := cmp.Diff(append([]delivery.Delivery{}, page...), got); d != "" || total != all || err != nil {
			b.Errorf("%+v: %d of %d, %v (-want +got):\n%s", q, total, all, err, d)
		}
	}
}

func newer(x, y *delivery.Delivery) bool {
	if !x.CreatedAt.Equal(y.CreatedAt) {
		return x.CreatedAt.After(y.CreatedAt)
	}
	return x.ID > y.ID
}
