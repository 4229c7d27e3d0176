package backup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// saveSettings saves the webhooks and schedules of all accounts, with pending deliveries.
func (s *saver) saveSettings(ctx context.Context) error { return s.saveMissing(ctx, s.saveUnsent) }

// saveNewSettings saves webhooks and schedules that were made since the others were read. It comes after the replies, which
// include those to the requests that made them. Their deliveries are of events that have their effect again.
func (s *saver) saveNewSettings(ctx context.Context) error {
	return s.saveMissing(ctx, func(context.Context, *deliveries.Copied) error { return nil })
}

// saveMissing saves the webhooks and schedules that are not saved yet, and calls unsent for each of the webhooks.
func (s *saver) saveMissing(ctx context.Context, unsent func(context.Context, *deliveries.Copied) error) error {
	accounts, err := s.RDB.ZRange(ctx, s.AccountsKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(accounts, accountsAtOnce) {
		pipe := s.RDB.Pipeline()
		var hooks, health, schedules, rounds []*redis.MapStringStringCmd
		for _, a := range group {
			account := signal.AccountID(a)
			p := s.Partition(account)
			hooks = append(hooks, pipe.HGetAll(ctx, s.WebhooksKey(p, account)))
			health = append(health, pipe.HGetAll(ctx, s.WebhookHealthKey(p, account)))
			schedules = append(schedules, pipe.HGetAll(ctx, s.SchedulesKey(p, account)))
			rounds = append(rounds, pipe.HGetAll(ctx, s.ScheduleRoundsKey(p, account)))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, a := range group {
			account := signal.AccountID(a)
			for id, record := range hooks[i].Val() {
				if !s.unsaved(account, id) {
					continue
				}
				w := deliveries.Copied{Account: account, ID: signal.WebhookID(id), Record: record, Health: health[i].Val()[id]}
				if err := s.saveWebhook(&w); err != nil {
					return err
				}
				if err := unsent(ctx, &w); err != nil {
					return err
				}
			}
			if err := s.saveSchedules(ctx, account, schedules[i].Val(), rounds[i].Val()); err != nil {
				return err
			}
		}
	}
	return nil
}

// unsaved reports whether a webhook or schedule is not saved yet, and counts it as saved from then on.
func (s *saver) unsaved(account signal.AccountID, id string) bool {
	key := string(account) + " " + id
	saved := s.settings[key]
	s.settings[key] = true
	return !saved
}

func (s *saver) saveWebhook(w *deliveries.Copied) error {
	decoded, err := w.Webhook()
	if err != nil {
		return contentError{err}
	}
	s.summary.check(&decoded, s.opens)
	return s.add(kindWebhook, texts(string(w.Account), string(w.ID), w.Record, w.Health)...)
}

// saveUnsent saves the pending deliveries of a webhook.
func (s *saver) saveUnsent(ctx context.Context, w *deliveries.Copied) error {
	p := s.Partition(w.Account)
	pending, err := s.RDB.ZRangeWithScores(ctx, s.PendingKey(p, w.ID), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(pending, deliveriesAtOnce) {
		if err := s.saveDeliveries(ctx, p, w, group); err != nil {
			return err
		}
	}
	waits := s.WaitsKey(p, w.ID)
	pipe := s.RDB.Pipeline()
	until, all := pipe.PExpireTime(ctx, waits), pipe.HGetAll(ctx, waits)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	for field, value := range all.Val() {
		if err := s.add(kindWait, texts(string(w.Account), string(w.ID), untilText(until), field, value)...); err != nil {
			return err
		}
	}
	return nil
}

func (s *saver) saveSchedules(ctx context.Context, account signal.AccountID, records, rounds map[string]string) error {
	for id, record := range records {
		if !s.unsaved(account, id) {
			continue
		}
		due, err := s.RDB.ZScore(ctx, s.SchedulesDueKey(s.Partition(account)), string(account)+" "+id).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		own := map[string]string{}
		for field, value := range rounds {
			if strings.HasPrefix(field, id+" ") {
				own[field] = value
			}
		}
		first := []string{string(account), id, record, score(redis.Z{Score: due})}
		if err := s.add(kindSchedule, pairs(first, own)...); err != nil {
			return err
		}
	}
	return nil
}

func webhookOf(f [][]byte) (deliveries.Copied, error) {
	if len(f) != 4 {
		return deliveries.Copied{}, ErrDamaged
	}
	return deliveries.Copied{Account: signal.AccountID(f[0]), ID: signal.WebhookID(f[1]), Record: string(f[2]),
		Health: string(f[3])}, nil
}

func (l *loader) webhook(ctx context.Context, f [][]byte) error {
	w, err := webhookOf(f)
	if err != nil {
		return err
	}
	from := l.from(w.Account)
	w.Move(func(p signal.Position) signal.Position { return l.moved(from, p) })
	w.Restore(ctx, l.pipe, l.Keys, l.of(w.Account))
	return nil
}

func (l *loader) schedule(ctx context.Context, f [][]byte) error {
	account, id := signal.AccountID(f[0]), string(f[1])
	p, member := l.of(account), string(account)+" "+id
	l.schedules[member] = true
	l.pipe.HSet(ctx, l.SchedulesKey(p, account), id, string(f[2]))
	if due := scoreOf(f[3]); due > 0 {
		l.pipe.ZAdd(ctx, l.SchedulesDueKey(p), redis.Z{Score: due, Member: member})
	}
	if rounds := f[4:]; len(rounds) > 0 {
		l.pipe.HSet(ctx, l.ScheduleRoundsKey(p, account), values(rounds)...)
	}
	return nil
}
