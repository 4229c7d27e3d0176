package deliveries

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// webhookTries is how often a removal is tried when others have changed the record in between.
const webhookTries = 5

var (
	errTooManyWebhooks = redisclient.Refused("limit_reached", "the account has as many webhooks as it may have")
	errSameURL         = &signal.Error{Kind: signal.KindInvalid, Code: signal.CodeDuplicateURL,
		Message: "another webhook of the account has this URL"}
	errWebhookChanged = redisclient.Refused(signal.CodeWebhookChanged, "the webhook was changed meanwhile")
	errNoWebhook      = error(signal.NotFound("webhook"))
)

// Settings are the webhooks of accounts. Requests do not depend on which node owns a partition.
type Settings struct {
	*redisclient.Client
	log *eventlog.Log
}

// Register stores a new webhook, together with the answer to the request for it unless that is
// nil. The result has the revision, and the present time if w had no time of creation.
// KindConflict, "limit_reached": the account has limit webhooks. KindInvalid, "duplicate": one
// of them has the URL.
func (h *Settings) Register(ctx context.Context, w delivery.Webhook, limit int, answer *signal.Reply) (
	delivery.Webhook, error) {
	if w.CreatedAt.IsZero() {
		w.CreatedAt = h.Now().Truncate(time.Millisecond)
	}
	if w.UpdatedAt.IsZero() {
		w.UpdatedAt = w.CreatedAt
	}
	w.Health, w.ClearedAt, w.Since = delivery.WebhookHealth{}, time.Time{}, signal.Position{}
	record, err := appendWebhook(nil, &w)
	if err != nil {
		return delivery.Webhook{}, err
	}
	for range limit + 1 { // each failure means that another one was registered
		others, err := h.checkRegistration(ctx, &w, limit)
		if err != nil {
			return delivery.Webhook{}, err
		}
		if w.Since, err = h.register(ctx, &w, record, others+1, answer); !errors.Is(err, errTooManyWebhooks) {
			if err != nil {
				return delivery.Webhook{}, err
			}
			return stored(w)
		}
	}
	return delivery.Webhook{}, redisclient.Failed(errors.New("others keep being registered"), "register webhook")
}

// CheckRegistration returns the error with which Register would refuse w at present, or
// ChangeWebhook if w is stored with another URL. It reserves nothing: they may refuse w later.
func (h *Settings) CheckRegistration(ctx context.Context, w *delivery.Webhook, limit int) error {
	_, err := h.checkRegistration(ctx, w, limit)
	return err
}

// checkRegistration returns how many other webhooks the account of w has. It refuses w if there
// are limit or more, or one of them has its URL.
func (h *Settings) checkRegistration(ctx context.Context, w *delivery.Webhook, limit int) (others int, err error) {
	if others, err = h.checkURL(ctx, w); err == nil && others >= limit {
		err = errTooManyWebhooks
	}
	return others, err
}

// checkURL returns how many other webhooks the account of w has, or errSameURL if one of them
// has its URL.
func (h *Settings) checkURL(ctx context.Context, w *delivery.Webhook) (others int, err error) {
	records, err := h.RDB.HGetAll(ctx, hookOf(h.Client, w.Account, w.ID).webhooks()).Result()
	if err != nil {
		return 0, redisclient.Failed(err, "read webhooks")
	}
	for id, record := range records {
		other, err := decodeWebhook(w.Account, signal.WebhookID(id), []byte(record))
		if err == nil && other.ID != w.ID && other.URL == w.URL {
			return 0, errSameURL
		}
	}
	delete(records, string(w.ID))
	return len(records), nil
}

// register stores a new webhook if the account has fewer than limit.
func (h *Settings) register(ctx context.Context, w *delivery.Webhook, record []byte, limit int, answer *signal.Reply) (
	signal.Position, error) {
	at := hookOf(h.Client, w.Account, w.ID)
	o := eventlog.NewOperation(h.Keys)
	k := o.Key(at.webhooks())
	o.Guard(eventlog.GuardLengthBelow, k, errTooManyWebhooks, strconv.Itoa(limit))
	at.announce(o, signal.WebhookChanged)
	o.Stamped(eventlog.StampID, 1, eventlog.CmdHSet, k, string(w.ID), codec.Text(record))
	o.Step(eventlog.CmdSAdd, o.Key(h.WebhookAccountsKey(at.p)), string(w.Account))
	o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, string(w.Status), "1")
	if answer != nil {
		o.AddReply(at.p, w.Account, answer)
	}
	return h.log.Apply(ctx, at.p, o)
}

// stored returns w with the revision of its record.
func stored(w delivery.Webhook) (delivery.Webhook, error) {
	record, err := appendWebhook(nil, &w)
	w.Revision = string(record)
	return w, err
}

// Webhook returns a webhook with its health and its revision. KindNotFound: the account does not
// have it.
func (h *Settings) Webhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error) {
	p := h.Partition(account)
	pipe := h.RDB.Pipeline()
	record := pipe.HGet(ctx, h.WebhooksKey(p, account), string(id))
	health := pipe.HGet(ctx, h.WebhookHealthKey(p, account), string(id))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return delivery.Webhook{}, redisclient.Failed(err, "read webhook")
	}
	if errors.Is(record.Err(), redis.Nil) {
		return delivery.Webhook{}, errNoWebhook
	}
	return readWebhook(account, id, record.Val(), health.Val())
}

// readWebhook decodes a webhook. health may be empty.
func readWebhook(account signal.AccountID, id signal.WebhookID, record, health string) (delivery.Webhook, error) {
	w, err := decodeWebhook(account, id, []byte(record))
	if err != nil || health == "" {
		return w, err
	}
	if w.Health, err = decodeHealth([]byte(health)); err != nil {
		return delivery.Webhook{}, err
	}
	if f := w.Health.FailingSince; !f.IsZero() && f.Before(w.ClearedAt) {
		// The owner has stored it after the webhook was enabled again.
		w.Health = delivery.WebhookHealth{}
	}
	return w, nil
}

// Webhooks returns all webhooks of an account with their health and revisions, newest first. One
// that cannot be read is logged and left out.
func (h *Settings) Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error) {
	p := h.Partition(account)
	pipe := h.RDB.Pipeline()
	records := pipe.HGetAll(ctx, h.WebhooksKey(p, account))
	health := pipe.HGetAll(ctx, h.WebhookHealthKey(p, account))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "read webhooks")
	}
	list := make([]delivery.Webhook, 0, len(records.Val()))
	for id, record := range records.Val() {
		w, err := readWebhook(account, signal.WebhookID(id), record, health.Val()[id])
		if err != nil {
			h.Log.Error("a webhook is not readable", "component", "persistence", "err", err)
			continue
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b delivery.Webhook) int { return strings.Compare(string(b.ID), string(a.ID)) })
	return list, nil
}

// ChangeWebhook replaces the record that w was read from, with the present time as that of the
// change. With clearHealth it forgets the health of the endpoint. The result has the new
// revision. KindConflict, "webhook_changed": another change came first, or the webhook was
// removed; read it again. KindInvalid, "duplicate": another webhook has the new URL.
func (h *Settings) ChangeWebhook(ctx context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error) {
	if before, err := decodeWebhook(w.Account, w.ID, []byte(w.Revision)); err == nil && before.URL != w.URL {
		if _, err := h.checkURL(ctx, &w); err != nil {
			return delivery.Webhook{}, err
		}
	}
	w.UpdatedAt = h.Now().Truncate(time.Millisecond)
	if clearHealth {
		w.Health, w.ClearedAt = delivery.WebhookHealth{}, w.UpdatedAt
	}
	p := h.Partition(w.Account)
	o := eventlog.NewOperation(h.Keys)
	enabled, err := addWebhook(o, p, &w)
	if err != nil {
		return delivery.Webhook{}, err
	}
	if clearHealth {
		o.Step(eventlog.CmdHDel, o.Key(h.WebhookHealthKey(p, w.Account)), string(w.ID))
	}
	announced, err := h.log.Apply(ctx, p, o)
	if err != nil {
		return delivery.Webhook{}, err
	}
	if enabled {
		w.Since = announced
	}
	return stored(w)
}

// addWebhook replaces the record of w, which must still be that of its revision, and announces
// it. It reports whether w is enabled again: its record then begins with the position of the
// announcement.
func addWebhook(o *eventlog.Operation, p int, w *delivery.Webhook) (enabled bool, err error) {
	before, err := decodeWebhook(w.Account, w.ID, []byte(w.Revision))
	if err != nil {
		return false, err
	}
	if enabled = before.Status != w.Status && w.Status == delivery.WebhookEnabled; enabled {
		w.Since = signal.Position{}
	}
	b, err := appendWebhook(nil, w)
	if err != nil {
		return false, err
	}
	at := hook{o.Keys, p, w.Account, w.ID}
	k := o.Key(at.webhooks())
	o.Guard(eventlog.GuardFieldIs, k, errWebhookChanged, string(w.ID), w.Revision)
	at.announce(o, signal.WebhookChanged)
	if enabled {
		o.Stamped(eventlog.StampID, 1, eventlog.CmdHSet, k, string(w.ID), codec.Text(b))
	} else {
		o.Step(eventlog.CmdHSet, k, string(w.ID), codec.Text(b))
	}
	if before.Status != w.Status {
		o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, string(before.Status), "-1")
		o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, string(w.Status), "1")
	}
	return enabled, nil
}

// RemoveWebhook removes a webhook. Its deliveries are no longer found, and EraseWebhooks erases
// them. KindNotFound: the account does not have it.
func (h *Settings) RemoveWebhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) error {
	w := hookOf(h.Client, account, id)
	for range webhookTries {
		record, err := h.RDB.HGet(ctx, w.webhooks(), string(id)).Result()
		if errors.Is(err, redis.Nil) {
			return h.Durable.Confirmed(ctx, h.ConfirmKey(w.p), errNoWebhook)
		}
		if err != nil {
			return redisclient.Failed(err, "read webhook")
		}
		o := eventlog.NewOperation(h.Keys)
		k := o.Key(w.webhooks())
		o.Guard(eventlog.GuardFieldIs, k, errWebhookChanged, string(id), record)
		o.Step(eventlog.CmdHDel, k, string(id))
		o.Step(eventlog.CmdHDel, o.Key(h.WebhookHealthKey(w.p, account)), string(id))
		o.Step(eventlog.CmdHSet, o.Key(h.WebhooksEraseKey(w.p)), string(id), string(account))
		o.Step(eventlog.CmdUndue, eventlog.RefWebhooksDue, w.member())
		o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, string(statusOfRecord(record)), "-1")
		w.announce(o, signal.WebhookChanged)
		if _, err = h.log.Apply(ctx, w.p, o); !errors.Is(err, errWebhookChanged) {
			return err
		}
	}
	return errWebhookChanged
}

// statusOfRecord returns the status of a webhook, even of one that is not readable.
func statusOfRecord(record string) delivery.WebhookStatus {
	_, record = cutSince(record)
	if len(record) > 1 && record[1]&1 != 0 {
		return delivery.WebhookDisabled
	}
	return delivery.WebhookEnabled
}

// AccountsWithWebhooks returns the accounts of partition p that have or had webhooks.
func (h *Settings) AccountsWithWebhooks(ctx context.Context, p int) ([]signal.AccountID, error) {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		found, next, err := h.RDB.SScan(ctx, h.WebhookAccountsKey(p), cursor, "", 1000).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "read accounts with webhooks of partition %d", p)
		}
		for _, a := range found {
			seen[a] = true
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	accounts := make([]signal.AccountID, 0, len(seen))
	for a := range seen {
		accounts = append(accounts, signal.AccountID(a))
	}
	return accounts, nil
}

// Any reports whether any account has a webhook.
func (h *Settings) Any(ctx context.Context) (bool, error) {
	pipe := h.RDB.Pipeline()
	counts := make([]*redis.IntCmd, h.Partitions())
	for p := range counts {
		counts[p] = pipe.Exists(ctx, h.WebhookAccountsKey(p))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return false, redisclient.Failed(err, "look for webhooks")
	}
	return slices.ContainsFunc(counts, func(n *redis.IntCmd) bool { return n.Val() > 0 }), nil
}
