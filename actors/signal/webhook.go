package signal

import (
	"crypto/rand"
	"encoding/base64"
	"time"
)

// WebhookStatus says whether events are recorded for a webhook.
type WebhookStatus string

// The statuses of webhooks.
const (
	WebhookEnabled  WebhookStatus = "enabled"
	WebhookDisabled WebhookStatus = "disabled"
)

// WebhookStatuses lists them, for metrics and the API description.
var WebhookStatuses = []WebhookStatus{WebhookEnabled, WebhookDisabled}

// DisabledReason says who disabled a webhook.
type DisabledReason string

// The reasons.
const (
	DisabledFailing DisabledReason = "failing" // the service, after too long a failure
	DisabledManual  DisabledReason = "manual"  // its owner
)

// DisabledReasons lists them, for metrics.
var DisabledReasons = []DisabledReason{DisabledFailing, DisabledManual}

// WebhookEvents lists the types of events that a webhook may subscribe to, in the
// order of the specification.
var WebhookEvents = []EventType{SignalCreated, SignalUpdated, SignalClosed, AgentStarted, AgentCompleted, AgentFailed, WebhookTest}

// Lengths of what a webhook consists of, in characters.
const (
	MaxWebhookURL         = 2048
	MaxWebhookSecret      = 256
	MaxWebhookDescription = 200
)

// SecretPrefix begins the signing secrets that the service makes, as Standard Webhooks
// has it: the base64 of secretBytes random bytes follows.
const (
	SecretPrefix = "whsec_"
	secretBytes  = 32
)

// NewSecret makes a signing secret.
func NewSecret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // never fails
	return SecretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// Webhook is an endpoint that an account has registered.
type Webhook struct {
	ID          WebhookID
	Account     AccountID
	URL         string
	Events      []EventType // without duplicates, as given
	Description *string     // nil without one
	APIVersion  string      // of the bodies of its events, such as "2026-11-01"
	Status      WebhookStatus
	CreatedAt   time.Time
	UpdatedAt   time.Time

	DisabledAt     time.Time      // zero while it is enabled
	DisabledReason DisabledReason // empty while it is enabled

	// Since is where in the log it was registered, or last enabled again: it gets the
	// events behind. Set by the store; zero: all of them.
	Since Position

	// Secret signs what is sent, sealed. PreviousSecret signs beside it until
	// PreviousUntil; nil and zero if there is none.
	Secret         []byte
	PreviousSecret []byte
	PreviousUntil  time.Time

	// Health is kept apart: only the owner of the partition writes it. Failures before
	// ClearedAt count no more: somebody has enabled the webhook again then. Set by the
	// store; zero: never.
	Health    WebhookHealth
	ClearedAt time.Time

	// Revision is what the record was read from, so that a change of it is refused
	// if another came first. Set by the store.
	Revision string
}

// WebhookHealth is how an endpoint has answered of late. The zero value: well, or
// not at all.
type WebhookHealth struct {
	FailingSince time.Time // the first failed attempt since a success; zero if there is none
	Failures     int       // failed attempts since then, that one included
	Warned       int       // how many warnings went out since then
}

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// The states of a delivery: pending, then succeeded or failed; both may become
// pending again by hand.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliverySucceeded DeliveryStatus = "succeeded"
	DeliveryFailed    DeliveryStatus = "failed"
)

// DeliveryStatuses lists them, for metrics and the API description.
var DeliveryStatuses = []DeliveryStatus{DeliveryPending, DeliverySucceeded, DeliveryFailed}

// Delivery is one event for one webhook.
type Delivery struct {
	ID        DeliveryID
	Webhook   WebhookID
	Account   AccountID
	Event     EventID
	Type      EventType
	Status    DeliveryStatus
	CreatedAt time.Time

	// NextAttemptAt is when a pending delivery is due; zero otherwise.
	NextAttemptAt time.Time
	// WasDueAt is, in a state after an attempt, the NextAttemptAt for which the attempt
	// was made: the store leaves the state out if the delivery was changed by hand
	// meanwhile. Zero, and when read: not known.
	WasDueAt time.Time
	// CompletedAt is when it succeeded or failed; zero while it is pending.
	CompletedAt time.Time
	// Single says that the next attempt has no further ones behind it: it was asked
	// for by hand, or is the test of a disabled webhook.
	Single bool
	// Scheduled counts the attempts of the schedule so far, 0 to 7: the first and
	// its retries. Manual ones do not count.
	Scheduled int
	// Error is why the delivery is not a success, empty if it is or was not tried;
	// see DeliveryTimeout and those beside it.
	Error string
	// Attempts are those made so far, oldest first. Beyond MaxAttempts the oldest are
	// forgotten; the numbers of the others stay.
	Attempts []Attempt
}

// AttemptCount returns how many attempts were made.
func (d *Delivery) AttemptCount() int {
	if n := len(d.Attempts); n > 0 {
		return d.Attempts[n-1].Number
	}
	return 0
}

// AttemptTrigger says why an attempt was made.
type AttemptTrigger string

// The triggers.
const (
	TriggerSchedule AttemptTrigger = "schedule"
	TriggerManual   AttemptTrigger = "manual"
)

// Attempt is one request to an endpoint and its outcome.
type Attempt struct {
	Number         int // from 1
	Trigger        AttemptTrigger
	At             time.Time
	Duration       time.Duration
	ResponseStatus int    // 0 if no response came
	Error          string // empty for a success
	ResponseBody   string // its beginning, as text
}

// Why an attempt fails, as clients see it, and a delivery with its last one. An answer
// that is no success is DeliveryStatusError and its number.
const (
	DeliveryStatusError  = "status "
	DeliveryTimeout      = "timeout"
	DeliveryNoConnection = "connection failed"
	DeliveryTLSFailed    = "TLS failed"
	DeliveryBlocked      = "address not allowed"
	DeliveryHostNotFound = "host not found"
	DeliveryCancelled    = "cancelled" // it was given up before it ended
)

// Limits of what is kept of the attempts of a delivery. Beyond them the oldest attempts
// and the ends of response bodies are cut off.
const (
	MaxAttempts     = 50
	MaxResponseBody = 8 << 10 // bytes
	// MaxEarlierBody is how much is kept of the answer to an attempt that is not the last.
	MaxEarlierBody = 1 << 10
)

// DeliveryQuery says which deliveries of a webhook are wanted. A zero member does not
// filter.
type DeliveryQuery struct {
	Status        DeliveryStatus
	Type          EventType
	Limit, Offset int
}

// RetryQuery says which ended deliveries of a webhook are to be sent again.
type RetryQuery struct {
	Status       DeliveryStatus // DeliveryFailed or DeliverySucceeded
	Since, Until time.Time      // of CreatedAt: at or after Since, before Until; zero: no bound
	DryRun       bool           // count them, and change nothing
}

// EventDeliveries are the deliveries of one event that are stored together with its
// body.
type EventDeliveries struct {
	Event      EventID
	Body       []byte // what is sent, of every attempt
	Deliveries []Delivery
}

// PendingDelivery is a delivery with what is to be sent.
type PendingDelivery struct {
	Delivery
	Body []byte
}

// EndpointDue is a webhook of which a delivery is due.
type EndpointDue struct {
	Account AccountID
	Webhook WebhookID
	At      time.Time
}

// Outcomes are what attempts of one endpoint have changed, to be stored at once.
type Outcomes struct {
	Account AccountID
	Webhook WebhookID
	// Deliveries are the states after the attempts. One that is not pending any
	// more, because it was cancelled meanwhile, is left out.
	Deliveries []Delivery
	// Bodies are what those of Deliveries send, by their index, that may not be stored
	// yet; nil for the others.
	Bodies [][]byte
	// Health is the endpoint's new one; nil: unchanged.
	Health *WebhookHealth
	// Disabled is the webhook's new record if the attempts have disabled it; nil
	// otherwise. The store is to refuse all of it if the record has changed since
	// its Revision.
	Disabled *Webhook
	// Event goes to the account's streams with it; nil: none.
	Event *Event
	// Mails are to be sent to the account.
	Mails []Mail
	// Waits replace those of their signals. One without Head and Last is forgotten.
	Waits []Wait
}

// Wait says what the store has of a signal at one endpoint, so that its events go there
// in their order.
type Wait struct {
	Signal SignalID
	// Head is a delivery of an event that happened at HeadAt and has failed. Those of
	// later events come behind Due: when it is tried again, or no longer waited for. It
	// is empty once the delivery is over.
	Head        DeliveryID
	HeadAt, Due time.Time
	// Last is the last of those that wait, of an event that happened at LastAt. Empty:
	// none.
	Last   DeliveryID
	LastAt time.Time
}

// MailKind says what a mail is about.
type MailKind string

// The kinds of mails.
const (
	MailWebhookFailing   MailKind = "webhook_failing"
	MailWebhookDisabled  MailKind = "webhook_disabled"
	MailWebhookRecovered MailKind = "webhook_recovered"
)

// Mail is a message to the address of an account that is still to be sent.
type Mail struct {
	ID      string // tells two mails apart; made by the store
	Kind    MailKind
	Account AccountID
	Webhook WebhookID
	URL     string    // of the webhook
	Since   time.Time // since when it fails, or failed
	At      time.Time // when what it tells happened
	Error   string    // of the last attempt; empty if it has recovered
	Tries   int       // how often it was tried to be sent
}

// WebhookStats are counts over all partitions, for metrics.
type WebhookStats struct {
	Pending           int64
	Enabled, Disabled int64
	OldestDue         time.Time // of the pending deliveries; zero if there is none
}
