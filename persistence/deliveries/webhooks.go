package deliveries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

const (
	// webhookTries is how often a change of a record is tried that others have
	// changed in between.
	webhookTries = 5
	// typeScans is how many lists of one process may pass over all deliveries of a
	// webhook at once.
	typeScans = 2
)

var (
	errTooManyWebhooks = redisclient.Refused("limit_reached", "the account has as many webhooks as it may have")
	errSameURL         = &signal.Error{Kind: signal.KindInvalid, Code: signal.CodeDuplicateURL, Message: "another webhook of the account has this URL"}
	errWebhookChanged  = redisclient.Refused(signal.CodeWebhookChanged, "the webhook was changed meanwhile")
	errNoWebhook       = error(signal.NotFound("webhook"))
)

// Store keeps webhooks, their deliveries and the mails about them. Requests do not
// depend on who owns a partition; what only its owner may do names the epoch and is
// refused with KindConflict, "not_owner", under another one. KindUnavailable: it is
// not known whether a change was made. All methods are safe for concurrent use.
type Store struct {
	store *eventlog.Store
	log   *eventlog.Log
	scans chan struct{} // holds typeScans
}

// New returns the webhooks of s. Changes are written by l.
func New(s *eventlog.Store, l *eventlog.Log) *Store {
	return &Store{store: s, log: l, scans: make(chan struct{}, typeScans)}
}

// Register stores a new webhook, and in the same step the answer to the request for it;
// nil: none is kept. Without a time of creation it gets the present one; what is returned
// has its revision. KindConflict, "limit_reached": the account has limit webhooks.
// KindInvalid, "duplicate": one of them has the URL.
func (h *Store) Register(ctx context.Context, w delivery.Webhook, limit int, answer *signal.Reply) (delivery.Webhook, error) {
	if w.CreatedAt.IsZero() {
		w.CreatedAt = h.store.Now().Truncate(time.Millisecond)
	}
	if w.UpdatedAt.IsZero() {
		w.UpdatedAt = w.CreatedAt
	}
	w.Health, w.ClearedAt = delivery.WebhookHealth{}, time.Time{}
	w.Since = signal.Position{}
	record, err := appendWebhook(nil, &w)
	if err != nil {
		return delivery.Webhook{}, err
	}
	for range limit + 1 { // whenever it fails, another one was registered
		others, err := h.checkRegistration(ctx, &w, limit)
		if err != nil {
			return delivery.Webhook{}, err
		}
		// No other one was registered since.
		if w.Since, err = h.register(ctx, &w, record, others+1, answer); !errors.Is(err, errTooManyWebhooks) {
			if err != nil {
				return delivery.Webhook{}, err
			}
			return stored(w)
		}
	}
	return delivery.Webhook{}, redisclient.Unavailable(errors.New("register webhook: others are registered all the time"))
}

// CheckRegistration returns the error with which Register would refuse w at present, or
// ChangeWebhook if w is stored with another URL. Nothing is reserved: either of them may
// refuse w later.
func (h *Store) CheckRegistration(ctx context.Context, w *delivery.Webhook, limit int) error {
	_, err := h.checkRegistration(ctx, w, limit)
	return err
}

// checkRegistration returns how many other webhooks the account of w has. It refuses w if
// they are limit or more, or one of them has its URL.
func (h *Store) checkRegistration(ctx context.Context, w *delivery.Webhook, limit int) (others int, err error) {
	if others, err = h.checkURL(ctx, w); err == nil && others >= limit {
		err = errTooManyWebhooks
	}
	return others, err
}

// checkURL returns errSameURL if another webhook of w's account has its URL, else how
// many others it has.
func (h *Store) checkURL(ctx context.Context, w *delivery.Webhook) (others int, err error) {
	records, err := h.store.RDB.HGetAll(ctx, redisclient.WebhooksKey(h.store.Partition(w.Account), w.Account)).Result()
	if err != nil {
		return 0, redisclient.Unavailable(fmt.Errorf("read webhooks: %w", err))
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
func (h *Store) register(ctx context.Context, w *delivery.Webhook, record []byte, limit int, answer *signal.Reply) (signal.Position, error) {
	p := h.store.Partition(w.Account)
	o := eventlog.NewOperation()
	k := o.Key(redisclient.WebhooksKey(p, w.Account))
	o.Guard(eventlog.GuardLengthBelow, k, errTooManyWebhooks, strconv.Itoa(limit))
	o.AddAnnouncement(w.Account, signal.WebhookChanged, w.ID)
	o.Stamped(eventlog.StampID, 1, eventlog.CmdHSet, k, string(w.ID), codec.Text(record))
	o.Step(eventlog.CmdSAdd, o.Key(redisclient.WebhookAccountsKey(p)), string(w.Account))
	o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, string(w.Status), "1")
	if answer != nil {
		o.AddReply(p, w.Account, answer)
	}
	return h.log.Apply(ctx, p, o)
}

// stored returns w with the revision that its record has.
func stored(w delivery.Webhook) (delivery.Webhook, error) {
	record, err := appendWebhook(nil, &w)
	w.Revision = string(record)
	return w, err
}

// Webhook returns a webhook with its health and its revision. KindNotFound: the
// account has none of that name.
func (h *Store) Webhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error) {
	p := h.store.Partition(account)
	pipe := h.store.RDB.Pipeline()
	record, health := pipe.HGet(ctx, redisclient.WebhooksKey(p, account), string(id)), pipe.HGet(ctx, redisclient.WebhookHealthKey(p, account), string(id))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return delivery.Webhook{}, redisclient.Unavailable(fmt.Errorf("read webhook: %w", err))
	}
	if errors.Is(record.Err(), redis.Nil) {
		return delivery.Webhook{}, errNoWebhook
	}
	return readWebhook(account, id, record.Val(), health.Val())
}

// readWebhook decodes a webhook; health is empty if there is none.
func readWebhook(account signal.AccountID, id signal.WebhookID, record, health string) (delivery.Webhook, error) {
	w, err := decodeWebhook(account, id, []byte(record))
	if err != nil || health == "" {
		return w, err
	}
	if w.Health, err = decodeHealth([]byte(health)); err != nil {
		return delivery.Webhook{}, err
	}
	if w.Health.FailingSince.Before(w.ClearedAt) {
		// The owner has stored it late, after somebody had enabled the webhook again.
		w.Health = delivery.WebhookHealth{}
	}
	return w, nil
}

// deliveryStore returns all webhooks of an account with their health and revisions, newest
// first. One that cannot be read is logged and left out.
func (h *Store) Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error) {
	p := h.store.Partition(account)
	pipe := h.store.RDB.Pipeline()
	records, health := pipe.HGetAll(ctx, redisclient.WebhooksKey(p, account)), pipe.HGetAll(ctx, redisclient.WebhookHealthKey(p, account))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read webhooks: %w", err))
	}
	list := make([]delivery.Webhook, 0, len(records.Val()))
	for id, record := range records.Val() {
		w, err := readWebhook(account, signal.WebhookID(id), record, health.Val()[id])
		if err != nil {
			h.store.Log.Error("a webhook is not readable", "component", "persistence", "err", err)
			continue
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b delivery.Webhook) int { return strings.Compare(string(b.ID), string(a.ID)) })
	return list, nil
}

// ChangeWebhook stores w in the place of the record that it was read from, with the
// present time as that of the change; clearHealth forgets how its endpoint did. What
// is returned has its new revision. KindConflict, "webhook_changed": another change
// came first, or it is gone; read it again. KindInvalid, "duplicate": another webhook has
// the new URL.
func (h *Store) ChangeWebhook(ctx context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error) {
	if before, err := decodeWebhook(w.Account, w.ID, []byte(w.Revision)); err == nil && before.URL != w.URL {
		if _, err := h.checkURL(ctx, &w); err != nil {
			return delivery.Webhook{}, err
		}
	}
	w.UpdatedAt = h.store.Now().Truncate(time.Millisecond)
	if clearHealth {
		w.Health, w.ClearedAt = delivery.WebhookHealth{}, w.UpdatedAt
	}
	p := h.store.Partition(w.Account)
	o := eventlog.NewOperation()
	enabled, err := addWebhook(o, p, &w)
	if err != nil {
		return delivery.Webhook{}, err
	}
	if clearHealth {
		o.Step(eventlog.CmdHDel, o.Key(redisclient.WebhookHealthKey(p, w.Account)), string(w.ID))
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

// addWebhook replaces the record of w, which must still be that of its revision, and
// announces it. It says whether w is enabled again: then its record begins with the
// position of the announcement.
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
	k := o.Key(redisclient.WebhooksKey(p, w.Account))
	o.Guard(eventlog.GuardFieldIs, k, errWebhookChanged, string(w.ID), w.Revision)
	o.AddAnnouncement(w.Account, signal.WebhookChanged, w.ID)
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

// RemoveWebhook removes a webhook. Its deliveries are found no more, and are erased
// by EraseWebhooks. KindNotFound: the account has none of that name.
func (h *Store) RemoveWebhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) error {
	p := h.store.Partition(account)
	for range webhookTries {
		record, err := h.store.RDB.HGet(ctx, redisclient.WebhooksKey(p, account), string(id)).Result()
		if errors.Is(err, redis.Nil) {
			return h.store.Confirmed(ctx, redisclient.ConfirmKey(p), errNoWebhook)
		}
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("read webhook: %w", err))
		}
		o := eventlog.NewOperation()
		k := o.Key(redisclient.WebhooksKey(p, account))
		o.Guard(eventlog.GuardFieldIs, k, errWebhookChanged, string(id), record)
		o.Step(eventlog.CmdHDel, k, string(id))
		o.Step(eventlog.CmdHDel, o.Key(redisclient.WebhookHealthKey(p, account)), string(id))
		o.Step(eventlog.CmdHSet, o.Key(redisclient.WebhooksEraseKey(p)), string(id), string(account))
		o.Step(eventlog.CmdUndue, eventlog.RefWebhooksDue, webhookMember(account, id))
		o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, string(statusOfRecord(record)), "-1")
		o.AddAnnouncement(account, signal.WebhookChanged, id)
		if _, err = h.log.Apply(ctx, p, o); !errors.Is(err, errWebhookChanged) {
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

// AccountsWithWebhooks returns the accounts of partition p that have webhooks; some
// may have none any more.
func (h *Store) AccountsWithWebhooks(ctx context.Context, p int) ([]signal.AccountID, error) {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		found, next, err := h.store.RDB.SScan(ctx, redisclient.WebhookAccountsKey(p), cursor, "", 1000).Result()
		if err != nil {
			return nil, redisclient.Unavailable(fmt.Errorf("read accounts with webhooks of partition %d: %w", p, err))
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

// LastEvent returns the position of the newest event of partition p; zero if there is
// none.
func (h *Store) LastEvent(ctx context.Context, p int) (signal.Position, error) {
	return h.store.LastEvent(ctx, p)
}

// WebhookStats counts webhooks and pending deliveries of all partitions.
func (h *Store) WebhookStats(ctx context.Context) (delivery.WebhookStats, error) {
	var stats delivery.WebhookStats
	counts, due := make([]*redis.SliceCmd, h.store.Partitions()), make([]*redis.ZSliceCmd, h.store.Partitions())
	pipe := h.store.RDB.Pipeline()
	for p := range counts {
		counts[p] = pipe.HMGet(ctx, redisclient.WebhookStatsKey(p), "pending", string(delivery.WebhookEnabled), string(delivery.WebhookDisabled))
		due[p] = pipe.ZRangeWithScores(ctx, redisclient.WebhooksDueKey(p), 0, 0)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return stats, redisclient.Unavailable(fmt.Errorf("count webhooks: %w", err))
	}
	for p := range counts {
		for i, total := range []*int64{&stats.Pending, &stats.Enabled, &stats.Disabled} {
			if value, ok := counts[p].Val()[i].(string); ok {
				n, _ := strconv.ParseInt(value, 10, 64) // Redis counts in decimal
				*total += n
			}
		}
		if first := due[p].Val(); len(first) > 0 {
			if at := codec.TimeOfMilli(int64(first[0].Score)); stats.OldestDue.IsZero() || at.Before(stats.OldestDue) {
				stats.OldestDue = at
			}
		}
	}
	return stats, nil
}
