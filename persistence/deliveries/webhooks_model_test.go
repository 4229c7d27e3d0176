package deliveries

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
)

// hookModel is the content of Redis about webhooks as plain values.
type hookModel struct {
	*hookBench
	rand     *rand.Rand
	clock    int64 // seconds, for milli
	accounts []signal.AccountID
	known    map[signal.AccountID]bool // to have or have had webhooks
	webhooks []*modelWebhook           // the removed ones too, until they are erased
	batches  [][]delivery.EventDeliveries
	bodies   map[string]string // all that ever were, by their keys
}

type modelWebhook struct {
	delivery.Webhook
	record     string
	removed    bool
	deliveries map[signal.DeliveryID]*modelDelivery
}

type modelDelivery struct {
	delivery.Delivery
	body string // key
}

func (w *modelWebhook) sorted() []*modelDelivery {
	return slices.SortedFunc(maps.Values(w.deliveries), func(a, b *modelDelivery) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
}

// TestWebhooksMatchModel takes random steps and compares every key with a model.
func TestWebhooksMatchModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			b := newHookBench(t)
			m := &hookModel{hookBench: b, rand: rand.New(rand.NewPCG(seed, 1)), known: map[signal.AccountID]bool{},
				bodies: map[string]string{}, accounts: []signal.AccountID{b.account, accountIn(b.store, b.p)}}
			steps := []struct {
				name   string
				weight int
				do     func()
			}{
				{"register", 3, m.register}, {"change", 2, m.change}, {"remove", 1, m.remove},
				{"store", 12, m.deliverSome}, {"repeat", 3, m.repeat}, {"test", 2, m.test},
				{"outcomes", 14, m.outcomes}, {"outcomes at once", 6, m.outcomesAtOnce},
				{"manual change", 6, m.changeOne}, {"retry all", 2, m.retryAll}, {"cancel all", 1, m.cancelAll},
				{"prune", 3, m.prune}, {"erase", 2, m.eraseOne}, {"delete account", 1, m.deleteAccount},
				{"list", 4, m.list}, {"former owner", 1, m.formerOwner},
			}
			total := 0
			for i := range steps {
				total += steps[i].weight
			}
			for i := range 350 {
				n, at := m.rand.IntN(total), 0
				for n >= steps[at].weight {
					n -= steps[at].weight
					at++
				}
				m.clock++
				steps[at].do()
				if d := cmp.Diff(m.want(), m.got()); d != "" {
					t.Fatalf("after step %d, %q (-want +got):\n%s", i, steps[at].name, d)
				}
				if t.Failed() {
					t.Fatalf("in step %d, %q", i, steps[at].name)
				}
			}
			for _, w := range m.webhooks {
				if !w.removed {
					m.must("remove", m.hooks.Settings.RemoveWebhook(t.Context(), w.Account, w.ID))
				}
			}
			m.hookBench.erase()
			m.wantNothingLeft()
		})
	}
}

// got returns all hashes, sets and sorted sets of webhooks in the database.
func (m *hookModel) got() map[string]map[string]string {
	ctx, all := m.Context(), map[string]map[string]string{}
	keys := m.rdb.Keys(ctx, m.store.PartitionKey(m.p, "*")).Val()
	types, pipe := make([]*redis.StatusCmd, len(keys)), m.rdb.Pipeline()
	for i, key := range keys {
		types[i] = pipe.Type(ctx, key)
	}
	pipe.Exec(ctx) // a key that was not read is missed below
	var take []func()
	for i, key := range keys {
		content := map[string]string{}
		switch types[i].Val() {
		case "hash":
			found := pipe.HGetAll(ctx, key)
			take = append(take, func() { maps.Copy(content, found.Val()) })
		case "zset":
			found := pipe.ZRangeWithScores(ctx, key, 0, -1)
			take = append(take, func() {
				for _, z := range found.Val() {
					content[z.Member.(string)] = strconv.FormatFloat(z.Score, 'f', -1, 64)
				}
			})
		case "set":
			found := pipe.SMembers(ctx, key)
			take = append(take, func() {
				for _, member := range found.Val() {
					content[member] = ""
				}
			})
		default:
			continue // the log, the lease
		}
		all[key] = content
	}
	pipe.Exec(ctx)
	for _, f := range take {
		f()
	}
	for field, n := range all[m.store.WebhookStatsKey(m.p)] {
		if n == "0" {
			delete(all[m.store.WebhookStatsKey(m.p)], field)
		}
	}
	maps.DeleteFunc(all, func(_ string, c map[string]string) bool { return len(c) == 0 })
	return all
}

// want returns what got should, by the model.
func (m *hookModel) want() map[string]map[string]string {
	all := map[string]map[string]string{}
	put := func(key, field, value string) {
		if all[key] == nil {
			all[key] = map[string]string{}
		}
		all[key][field] = value
	}
	stats, refs := map[string]int{}, map[string]int{}
	for a := range m.known {
		put(m.store.WebhookAccountsKey(m.p), string(a), "")
	}
	for _, w := range m.webhooks {
		first := time.Time{}
		for _, d := range w.deliveries {
			member, err := deliveryMember(d.ID, d.Type)
			m.must("make member", err)
			put(m.store.RecordedKey(m.p, w.ID), member, codec.MilliText(d.CreatedAt))
			plain := d.Delivery
			plain.WasDueAt = time.Time{}
			record := codec.Text(appendDelivery(nil, &plain, d.body))
			put(m.store.DeliveriesKey(m.p, w.ID), deliveryField(d.ID), record)
			refs[d.body]++
			switch d.Status {
			case delivery.Pending:
				put(m.store.PendingKey(m.p, w.ID), member, codec.MilliText(d.NextAttemptAt))
				stats["pending"]++
				if first.IsZero() || d.NextAttemptAt.Before(first) {
					first = d.NextAttemptAt
				}
			case delivery.Succeeded:
				put(m.store.SucceededKey(m.p, w.ID), member, codec.MilliText(d.CreatedAt))
			case delivery.Failed:
				put(m.store.FailedKey(m.p, w.ID), member, codec.MilliText(d.CreatedAt))
			}
		}
		if w.removed {
			put(m.store.WebhooksEraseKey(m.p), string(w.ID), string(w.Account))
			continue
		}
		put(m.store.WebhooksKey(m.p, w.Account), string(w.ID), w.record)
		stats[string(w.Status)]++
		if w.Health != (delivery.WebhookHealth{}) {
			health := codec.Text(appendHealth(nil, &w.Health))
			put(m.store.WebhookHealthKey(m.p, w.Account), string(w.ID), health)
		}
		if !first.IsZero() {
			put(m.store.WebhooksDueKey(m.p), hook{m.store.Keys, m.p, w.Account, w.ID}.member(), codec.MilliText(first))
		}
	}
	for key, n := range refs {
		put(m.store.BodiesKey(m.p), key, m.bodies[key])
		if n > 1 {
			put(m.store.BodyRefsKey(m.p), key, strconv.Itoa(n-1))
		}
	}
	for name, n := range stats {
		put(m.store.WebhookStatsKey(m.p), name, strconv.Itoa(n))
	}
	return all
}

// any returns one of the webhooks, or nil.
func (m *hookModel) any() *modelWebhook {
	if len(m.webhooks) == 0 {
		return nil
	}
	return m.webhooks[m.rand.IntN(len(m.webhooks))]
}

func (m *hookModel) live(a signal.AccountID) (n int) {
	for _, w := range m.webhooks {
		if w.Account == a && !w.removed {
			n++
		}
	}
	return n
}

func (m *hookModel) register() {
	a := m.accounts[m.rand.IntN(len(m.accounts))]
	w, err := m.hooks.Settings.Register(m.Context(), testWebhook(a), 4, nil)
	if m.live(a) == 4 {
		wantError(m.T, err, signal.KindConflict, "limit_reached")
		return
	}
	m.must("register", err)
	m.known[a] = true
	m.webhooks = append(m.webhooks, &modelWebhook{Webhook: w, record: w.Revision,
		deliveries: map[signal.DeliveryID]*modelDelivery{}})
}

func (m *hookModel) change() {
	w := m.any()
	if w == nil {
		return
	}
	changed := w.Webhook
	changed.URL = fmt.Sprint("https://example.com/", m.clock)
	enable := m.rand.IntN(2) == 0
	if enable {
		changed.Status, changed.DisabledReason, changed.DisabledAt = delivery.WebhookEnabled, "", time.Time{}
	} else {
		changed = disabled(changed, delivery.DisabledManual, milli(m.clock*1000))
	}
	got, err := m.hooks.Settings.ChangeWebhook(m.Context(), changed, enable)
	if w.removed {
		wantError(m.T, err, signal.KindConflict, "webhook_changed")
		return
	}
	m.must("change", err)
	_, err = m.hooks.Settings.ChangeWebhook(m.Context(), changed, enable)
	wantError(m.T, err, signal.KindConflict, "webhook_changed")
	w.Webhook, w.record = got, got.Revision
}

func (m *hookModel) remove() {
	w := m.any()
	if w == nil {
		return
	}
	err := m.hooks.Settings.RemoveWebhook(m.Context(), w.Account, w.ID)
	if w.removed {
		wantKind(m.T, "a second removal", err, signal.KindNotFound)
		return
	}
	m.must("remove", err)
	w.removed, w.Health = true, delivery.WebhookHealth{}
}

// forget takes erased webhooks out of the model.
func (m *hookModel) forget(erased func(*modelWebhook) bool) {
	m.webhooks = slices.DeleteFunc(m.webhooks, func(w *modelWebhook) bool {
		if !erased(w) {
			return false
		}
		if m.live(w.Account) == 0 {
			delete(m.known, w.Account)
		}
		return true
	})
}

func (m *hookModel) eraseOne() {
	if _, err := m.hooks.Retention.EraseWebhooks(m.Context(), m.p, m.epoch); err != nil {
		m.Fatal(err)
	}
	noted := m.rdb.HGetAll(m.Context(), m.store.WebhooksEraseKey(m.p)).Val()
	before := len(m.webhooks)
	m.forget(func(w *modelWebhook) bool { return w.removed && noted[string(w.ID)] == "" })
	if before-len(m.webhooks) > 1 {
		m.Errorf("one step erased %d webhooks", before-len(m.webhooks))
	}
}

func (m *hookModel) deleteAccount() {
	i := m.rand.IntN(len(m.accounts))
	for cursor := "begin"; cursor != ""; {
		var err error
		if cursor == "begin" {
			cursor = ""
		}
		cursor, err = EraseWebhooks(m.Context(), m.store.Client, m.p, m.epoch, m.accounts[i], cursor)
		m.must("erase webhooks of account", err)
	}
	m.webhooks = slices.DeleteFunc(m.webhooks, func(w *modelWebhook) bool { return w.Account == m.accounts[i] })
	delete(m.known, m.accounts[i])
	m.forget(func(w *modelWebhook) bool { return w.removed })
}

// made records that deliveries were stored, except those of removed webhooks.
func (m *hookModel) made(batch []delivery.EventDeliveries) {
	for _, e := range batch {
		key, err := bodyKey(e.Event, e.Body)
		m.must("make key of body", err)
		m.bodies[key] = string(e.Body)
		for _, d := range e.Deliveries {
			for _, w := range m.webhooks {
				if w.ID == d.Webhook && !w.removed && w.deliveries[d.ID] == nil {
					w.deliveries[d.ID] = &modelDelivery{d, key}
				}
			}
		}
	}
}

// deliverSome stores deliveries of some events.
func (m *hookModel) deliverSome() {
	batch := m.draw()
	m.must("store deliveries", m.hooks.Queue.StoreDeliveries(m.Context(), m.p, m.epoch, batch))
	m.made(batch)
}

// draw returns deliveries of some events of one account, whose bodies are of two
// versions. Later steps may store them, again or for the first time.
func (m *hookModel) draw() (batch []delivery.EventDeliveries) {
	a := m.accounts[m.rand.IntN(len(m.accounts))]
	for range 1 + m.rand.IntN(4) {
		e := signal.NewEventID()
		two := append(deliveriesOf(e, "one "+string(e)), deliveriesOf(e, "two \x00"+string(e))...)
		for _, w := range m.webhooks {
			if w.Account == a && m.rand.IntN(4) > 0 {
				of := &two[m.rand.IntN(2)]
				of.Deliveries = append(of.Deliveries, testDelivery(&w.Webhook, e, milli(m.clock*1000+m.rand.Int64N(3))))
			}
		}
		batch = append(batch, two...)
	}
	m.batches = append(m.batches, batch)
	return batch
}

// repeat stores a batch again: deliveries that are there stay, pruned ones are made again.
func (m *hookModel) repeat() {
	if len(m.batches) == 0 {
		return
	}
	batch := m.batches[m.rand.IntN(len(m.batches))]
	m.must("store deliveries again", m.hooks.Queue.StoreDeliveries(m.Context(), m.p, m.epoch, batch))
	m.made(batch)
}

func (m *hookModel) test() {
	w := m.any()
	if w == nil {
		return
	}
	d := testDelivery(&w.Webhook, signal.NewEventID(), milli(m.clock*1000))
	d.ID, d.Type, d.Single = signal.NewDeliveryID(), signal.WebhookTest, m.rand.IntN(2) == 0
	err := m.hooks.Changes.CreateDelivery(m.Context(), d, []byte("test"))
	if w.removed {
		wantKind(m.T, "a test of a removed webhook", err, signal.KindNotFound)
		return
	}
	m.must("create delivery", err)
	m.made(deliveriesOf(d.Event, "test", d))
}
