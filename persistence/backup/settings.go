package backup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/agents"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindWebhook  kind = 5  // account, id, record, health
	kindAgent    kind = 37 // account, field, value
	kindSchedule kind = 9  // account, id, record, due, then field and value of each result
)

// settings are the webhooks and schedules of all accounts, with pending deliveries (deliveries.go).
var settings = section{
	keys: []string{"{pNN}:webhooks:ACCOUNT", "{pNN}:webhookhealth:ACCOUNT", "{pNN}:webhookaccounts", "{pNN}:webhooksdue",
		"{pNN}:webhookstats", "{pNN}:deliveries:WEBHOOK", "{pNN}:recorded:WEBHOOK", "{pNN}:pending:WEBHOOK",
		"{pNN}:waits:WEBHOOK", "{pNN}:bodies", "{pNN}:bodyrefs", "{pNN}:schedules:ACCOUNT", "{pNN}:schedulerounds:ACCOUNT",
		"{pNN}:agents:ACCOUNT", "{auth}:intake:DIGEST"},
	save: func(ctx context.Context, s *source) error { return saveMissing(ctx, s, saveUnsent) },
	records: []record{
		{kind: kindWebhook, fields: 4, names: 1, load: loadWebhook},
		{kind: kindAgent, fields: 3, names: 1, load: loadAgent},
		{kind: kindSchedule, fields: 4, names: 1, load: loadSchedule},
		{kind: kindDelivery, fields: 6, names: 2, load: loadDelivery},
		{kind: kindWait, fields: 5, names: 2, load: loadWait},
	},
}

// newSettings are webhooks and schedules that were made since the others were read. They come after the replies, which
// include those to the requests that made them. Their deliveries are of events that have their effect again.
var newSettings = section{save: func(ctx context.Context, s *source) error {
	return saveMissing(ctx, s, func(context.Context, *source, *deliveries.Copied) error { return nil })
}}

// saveMissing saves the webhooks and schedules that are not saved yet, and calls unsent for each of the webhooks.
func saveMissing(ctx context.Context, s *source, unsent func(context.Context, *source, *deliveries.Copied) error) error {
	all, err := s.RDB.ZRange(ctx, s.AccountsKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(all, accountsAtOnce) {
		pipe := s.RDB.Pipeline()
		var hooks, health, owned, schedules, rounds []*redis.MapStringStringCmd
		for _, a := range group {
			account := signal.AccountID(a)
			p := s.Partition(account)
			hooks = append(hooks, pipe.HGetAll(ctx, s.WebhooksKey(p, account)))
			health = append(health, pipe.HGetAll(ctx, s.WebhookHealthKey(p, account)))
			owned = append(owned, pipe.HGetAll(ctx, s.AgentsKey(p, account)))
			schedules = append(schedules, pipe.HGetAll(ctx, s.SchedulesKey(p, account)))
			rounds = append(rounds, pipe.HGetAll(ctx, s.ScheduleRoundsKey(p, account)))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, a := range group {
			account := signal.AccountID(a)
			for id, record := range s.unsaved(account, hooks[i].Val()) {
				w := deliveries.Copied{Account: account, ID: signal.WebhookID(id), Record: record, Health: health[i].Val()[id]}
				if err := s.summary.check(&w, s.opens); err != nil {
					return contentError{err}
				}
				if err := s.add(kindWebhook, account, id, record, w.Health); err != nil {
					return err
				}
				if err := unsent(ctx, s, &w); err != nil {
					return err
				}
			}
			for field, value := range s.unsaved(account, owned[i].Val()) {
				if err := s.add(kindAgent, account, field, value); err != nil {
					return err
				}
			}
			for id, record := range s.unsaved(account, schedules[i].Val()) {
				if err := saveSchedule(ctx, s, account, id, record, rounds[i].Val()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func webhookOf(f fields) *deliveries.Copied {
	return &deliveries.Copied{Account: f.account(0), ID: signal.WebhookID(f[1]), Record: f.text(2), Health: f.text(3)}
}

func loadWebhook(ctx context.Context, t *target, f fields) error {
	w := webhookOf(f)
	from := t.from(w.Account)
	w.Move(func(p signal.Position) signal.Position { return t.moved(from, p) })
	w.Restore(ctx, t.pipe, t.Keys, t.of(w.Account))
	return nil
}

func loadAgent(ctx context.Context, t *target, f fields) error {
	account := f.account(0)
	t.pipe.HSet(ctx, t.AgentsKey(t.of(account), account), f.args(1)...)
	for key, value := range agents.Restored(t.Keys, account, f.text(1), f.text(2)) {
		t.pipe.Set(ctx, key, value, 0)
	}
	return nil
}

func saveSchedule(ctx context.Context, s *source, account signal.AccountID, id, record string, rounds map[string]string) error {
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
	return s.add(kindSchedule, account, id, record, due, own)
}

func loadSchedule(ctx context.Context, t *target, f fields) error {
	account, id := f.account(0), f.text(1)
	p, member := t.of(account), string(account)+" "+id
	t.schedules[member] = true
	t.pipe.HSet(ctx, t.SchedulesKey(p, account), id, f.text(2))
	if due := f.score(3); due > 0 {
		t.pipe.ZAdd(ctx, t.SchedulesDueKey(p), redis.Z{Score: due, Member: member})
	}
	if len(f) > 4 {
		t.pipe.HSet(ctx, t.ScheduleRoundsKey(p, account), f.args(4)...)
	}
	return nil
}
