package backup

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// saveDeliveries saves the deliveries of due that are still pending.
func (s *saver) saveDeliveries(ctx context.Context, p int, w *deliveries.Copied, due []redis.Z) error {
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
		fields := texts(string(w.Account), string(w.ID), member(z), score(z), record, body)
		if err := s.add(kindDelivery, fields...); err != nil {
			return err
		}
	}
	return nil
}

func (s *saver) saveMails(ctx context.Context) error {
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
			if err := s.add(kindMail, texts(string(account), member(z), score(z), record)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) delivery(ctx context.Context, f [][]byte) error {
	d := deliveries.CopiedDelivery{Account: signal.AccountID(f[0]), Webhook: signal.WebhookID(f[1]), Member: string(f[2]),
		Due: scoreOf(f[3]), Record: string(f[4]), Body: string(f[5])}
	key, _ := deliveries.BodyKeyOf(d.Record)
	p := l.of(d.Account)
	body := strconv.Itoa(p) + " " + key
	err := d.Restore(ctx, l.pipe, l.Keys, p, l.bodies[body])
	l.bodies[body] = true
	return err
}

func (l *loader) wait(ctx context.Context, f [][]byte) error {
	if l.expired(f[2]) {
		return nil
	}
	key := l.WaitsKey(l.of(signal.AccountID(f[0])), signal.WebhookID(f[1]))
	l.pipe.HSet(ctx, key, string(f[3]), string(f[4]))
	l.expire(ctx, key, f[2])
	return nil
}

func (l *loader) mail(ctx context.Context, f [][]byte) error {
	p := l.of(signal.AccountID(f[0]))
	l.pipe.ZAdd(ctx, l.MailsKey(p), redis.Z{Score: scoreOf(f[2]), Member: string(f[1])})
	l.pipe.HSet(ctx, l.MailRecordsKey(p), string(f[1]), string(f[3]))
	return nil
}
