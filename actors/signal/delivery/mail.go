package delivery

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// MailKind is the subject of a mail.
type MailKind string

// The kinds of mails.
const (
	MailWebhookFailing   MailKind = "webhook_failing"
	MailWebhookDisabled  MailKind = "webhook_disabled"
	MailWebhookRecovered MailKind = "webhook_recovered"
)

// Mail is a message to an account's address that is not sent yet.
type Mail struct {
	ID      string // set by the store
	Kind    MailKind
	Account signal.AccountID
	Webhook signal.WebhookID
	URL     string    // of the webhook
	Since   time.Time // the beginning of the failure
	At      time.Time // of the event it reports
	Error   string    // of the last attempt; empty after a recovery
	Tries   int       // attempts to send it
}
