package deliveries

import (
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// hook names a webhook, the account that has it, and the partition of both.
type hook struct {
	keys    redisclient.Keys
	p       int
	account signal.AccountID
	id      signal.WebhookID
}

func (h *Store) hook(account signal.AccountID, id signal.WebhookID) hook {
	return hook{h.Keys, h.Partition(account), account, id}
}

// The deliveries of a webhook are a hash of records and four sorted sets: all by creation,
// the pending ones by when they are due, the succeeded and the failed ones by creation. Every
// change of them is a step of an operation; the script of the log keeps the number of pending
// deliveries and the earliest due time of each webhook.

func (w hook) records() string   { return w.keys.DeliveriesKey(w.p, w.id) }
func (w hook) all() string       { return w.keys.RecordedKey(w.p, w.id) }
func (w hook) pending() string   { return w.keys.PendingKey(w.p, w.id) }
func (w hook) succeeded() string { return w.keys.SucceededKey(w.p, w.id) }
func (w hook) failed() string    { return w.keys.FailedKey(w.p, w.id) }

// webhooks returns the key of the account's webhooks.
func (w hook) webhooks() string { return w.keys.WebhooksKey(w.p, w.account) }

// guard refuses o unless the account has the webhook.
func (w hook) guard(o *eventlog.Operation, refusal error) {
	o.Guard(eventlog.GuardFieldExists, o.Key(w.webhooks()), refusal, string(w.id))
}

// announce notifies the owner of the partition of a change of the webhook.
func (w hook) announce(o *eventlog.Operation, t signal.EventType) {
	o.Announce(w.account, t, string(w.id))
}

// member returns the member of the webhook among those that are due.
func (w hook) member() string { return string(w.account) + " " + string(w.id) }

// cutMember is the inverse of hook.member.
func cutMember(member string) (signal.AccountID, signal.WebhookID, bool) {
	account, webhook, _ := strings.Cut(member, " ")
	valid := account != "" && webhook != "" && !strings.Contains(webhook, " ")
	return signal.AccountID(account), signal.WebhookID(webhook), valid
}
