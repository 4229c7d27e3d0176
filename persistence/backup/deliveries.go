package backup

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// What is to be sent is saved with its webhook (settings.go), mails by themselves.

const (
	kindDelivery kind = 6 // account, webhook, member, due, record, payload
	kindWait     kind = 7 // account, webhook, until, field, value
	kindMail     kind = 8 // account, id, due, record
)

// deliveriesAtOnce is how many deliveries are read in one round trip, with their payloads.
const deliveriesAtOnce = 50

// saveUnsent saves the pending deliveries of a webhook, and what later events wait for.
func saveUnsent(ctx context.Context, s *source, w *deliveries.Copied) error {
	p := s.Partition(w.Account)
	pending, err := s.RDB.ZRangeWithScores(ctx, s.PendingKey(p, w.ID), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(pending, deliveriesAtOnce) {
		if err := saveDeliveries(ctx, s, p, w, group); err != nil {
			return err
		}
	}
	waits := s.WaitsKey(p, w.ID)
	pipe := s.RDB.Pipeline()
	until, all := pipe.PExpireTime(ctx, waits), pipe.HGetAll(ctx, waits)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	return s.addHash(kindWait, all.Val(), w.Account, w.ID, untilMS(until))
}

// saveDeliveries saves the deliveries of due that are still pending.
func saveDeliveries(ctx context.Context, s *source, p int, w *deliveries.Copied, due []redis.Z) error {
	ids := make([]string, len(due))
	for i, z := range due {
		ids[i] = member(z)[:min(16, len(member(z)))]
	}
	records, err := s.RDB.HMGet(ctx, s.DeliveriesKey(p, w.ID), ids...).Result()
	if err != nil {
		return err
	}
	bodyKeys := make([]string, len(due))
	for i, r := range records {
		record, _ := r.(string)
		bodyKeys[i], _ = deliveries.BodyKeyOf(record)
	}
	bodies, err := s.RDB.HMGet(ctx, s.BodiesKey(p), bodyKeys...).Result()
	if err != nil {
		return err
	}
	for i, z := range due {
		record, _ := records[i].(string)
		body, found := bodies[i].(string)
		if _, pending := deliveries.BodyKeyOf(record); !pending || !found {
			continue // it has ended since
		}
		if err := s.add(kindDelivery, w.Account, w.ID, member(z), z.Score, record, body); err != nil {
			return err
		}
	}
	return nil
}

func loadDelivery(ctx context.Context, t *target, f fields) error {
	d := deliveries.CopiedDelivery{Account: f.account(0), Webhook: signal.WebhookID(f[1]), Member: f.text(2),
		Due: f.score(3), Record: f.text(4), Body: f.text(5)}
	key, _ := deliveries.BodyKeyOf(d.Record)
	p := t.of(d.Account)
	body := strconv.Itoa(p) + " " + key
	err := d.Restore(ctx, t.pipe, t.Keys, p, t.bodies[body])
	t.bodies[body] = true
	return err
}

func loadWait(ctx context.Context, t *target, f fields) error {
	if f.expired(2, t.now) {
		return nil
	}
	key := t.WaitsKey(t.of(f.account(0)), signal.WebhookID(f[1]))
	t.pipe.HSet(ctx, key, f.text(3), f.text(4))
	t.expire(ctx, key, f, 2)
	return nil
}

var mails = section{
	keys: []string{"{pNN}:mails", "{pNN}:mailrecords"},
	save: func(ctx context.Context, s *source) error {
		for p := range s.Partitions() {
			pipe := s.RDB.TxPipeline()
			due, records := pipe.ZRangeWithScores(ctx, s.MailsKey(p), 0, -1), pipe.HGetAll(ctx, s.MailRecordsKey(p))
			if err := redisclient.Execute(ctx, pipe); err != nil {
				return err
			}
			for _, z := range due.Val() {
				record := records.Val()[member(z)]
				account := deliveries.MailAccount(member(z), record)
				if account == "" {
					continue
				}
				if err := s.add(kindMail, account, member(z), z.Score, record); err != nil {
					return err
				}
			}
		}
		return nil
	},
	records: []record{{kind: kindMail, fields: 4, load: func(ctx context.Context, t *target, f fields) error {
		p := t.of(f.account(0))
		t.pipe.ZAdd(ctx, t.MailsKey(p), redis.Z{Score: f.score(2), Member: f.text(1)})
		t.pipe.HSet(ctx, t.MailRecordsKey(p), f.text(1), f.text(3))
		return nil
	}}},
}
