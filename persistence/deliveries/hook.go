package deliveries

import (
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
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

func hookOf(c *redisclient.Client, account signal.AccountID, id signal.WebhookID) hook {
	return hook{c.Keys, c.Partition(account), account, id}
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

// byCreation returns the sorted set by creation that has the deliveries with a status; "" is
// any, and stands in for pending.
func (w hook) byCreation(status delivery.Status) string {
	switch status {
	case delivery.Succeeded:
		return w.succeeded()
	case delivery.Failed:
		return w.failed()
	default:
		return w.all()
	}
}

// stateKeys adds the keys of a webhook's deliveries in the order of CmdOutcome and CmdShift, and
// returns the first.
func (w hook) stateKeys(o *eventlog.Operation) eventlog.KeyRef {
	k := o.Key(w.pending())
	o.Key(w.records())
	o.Key(w.succeeded())
	o.Key(w.failed())
	o.Key(w.all())
	return k
}

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
