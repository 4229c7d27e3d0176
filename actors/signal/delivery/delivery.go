// Package delivery holds the values of webhooks: endpoints, the deliveries of events to
// them with their attempts, and the mails about their failures. The endpoint actors, the
// API and the store exchange them.
package delivery

import (
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Status is the state of a delivery.
type Status string

// The states of a delivery: pending, then succeeded or failed. A manual retry makes
// either pending again.
const (
	Pending   Status = "pending"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
)

// Statuses lists them, for metrics and the API description.
var Statuses = []Status{Pending, Succeeded, Failed}

// Delivery is one event for one webhook.
type Delivery struct {
	ID        signal.DeliveryID
	Webhook   signal.WebhookID
	Account   signal.AccountID
	Event     signal.EventID
	Type      signal.EventType
	Status    Status
	CreatedAt time.Time

	// NextAttemptAt is when a pending delivery is due; zero otherwise.
	NextAttemptAt time.Time
	// WasDueAt is the NextAttemptAt that led to the attempt whose outcome this is: the
	// store drops the outcome if the delivery was changed manually in the meantime. Zero
	// when read from the store.
	WasDueAt time.Time
	// CompletedAt is when it succeeded or failed; zero while it is pending.
	CompletedAt time.Time
	// Single reports whether the next attempt is the last one: a manual retry, or the test
	// of a disabled webhook.
	Single bool
	// Scheduled counts the attempts of the schedule so far, 0 to 7: the first and its
	// retries, without manual ones.
	Scheduled int
	// Error is the error of the last attempt, such as TimedOut; empty after a success and
	// before the first attempt.
	Error string
	// Attempts are those made so far, oldest first. Beyond MaxAttempts the oldest are
	// dropped; the others keep their numbers.
	Attempts []Attempt
	// Sent is the body of the last attempt's request where the webhook's format is not Standard, else nil:
	// then it is that of the event. Lists lack it.
	Sent []byte
}

// AttemptCount returns the number of attempts made.
func (d *Delivery) AttemptCount() int {
	if n := len(d.Attempts); n > 0 {
		return d.Attempts[n-1].Number
	}
	return 0
}

// Trigger is the cause of an attempt.
type Trigger string

// The triggers.
const (
	Scheduled Trigger = "schedule"
	Manual    Trigger = "manual"
)

// Attempt is one request to an endpoint and its outcome.
type Attempt struct {
	Number         int // from 1
	Trigger        Trigger
	At             time.Time
	Duration       time.Duration
	ResponseStatus int    // 0 if no response came
	Error          string // empty for a success
	ResponseBody   string // as text, cut off; see MaxResponseBody
}

// The errors of attempts, as clients see them. That of an answer outside 200 to 299 is
// StatusError and the status.
const (
	StatusError  = "status "
	TimedOut     = "timeout"
	NoConnection = "connection failed"
	TLSFailed    = "TLS failed"
	Blocked      = "address not allowed"
	HostNotFound = "host not found"
	Cancelled    = "cancelled" // abandoned before it ended
	// NotMade is the error of an attempt without a request, because the webhook's format or template makes no
	// message of the event. A colon and the reason follow, except in lists.
	NotMade = "message not made"
)

// Limits of the stored attempts of a delivery. Beyond them the oldest attempts and the
// ends of response bodies are dropped.
const (
	MaxAttempts     = 50
	MaxResponseBody = 8 << 10 // bytes
	// MaxEarlierBody is the limit for the bodies of all attempts but the last.
	MaxEarlierBody = 1 << 10
)

// CutText returns at most the first n bytes of s, without a part of a character.
func CutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Query selects deliveries of a webhook. A zero member does not filter.
type Query struct {
	Status        Status
	Type          signal.EventType
	Limit, Offset int
}

// RetryQuery selects ended deliveries of a webhook for another attempt.
type RetryQuery struct {
	Status       Status    // Failed or Succeeded
	Since, Until time.Time // of CreatedAt: at or after Since, before Until; zero for no bound
	DryRun       bool      // count them only
}

// EventDeliveries are the deliveries of one event, stored together with its body.
type EventDeliveries struct {
	Event      signal.EventID
	Body       []byte // of the request of every attempt
	Deliveries []Delivery
}

// PendingDelivery is a delivery with the body of its request.
type PendingDelivery struct {
	Delivery
	Body []byte
}

// EndpointDue is a webhook with a due delivery.
type EndpointDue struct {
	Account signal.AccountID
	Webhook signal.WebhookID
	At      time.Time
}

// Outcomes are the changes by attempts at one endpoint, stored at once.
type Outcomes struct {
	Account signal.AccountID
	Webhook signal.WebhookID
	// Deliveries are the states after the attempts. The store leaves out one that is no
	// longer pending because it was cancelled.
	Deliveries []Delivery
	// Bodies are, by index, the request bodies of those of Deliveries that may not be
	// stored yet; nil for the others.
	Bodies [][]byte
	// Health is the endpoint's new health, or nil if it is unchanged.
	Health *WebhookHealth
	// Disabled is the webhook's new record if the attempts disabled it, else nil. The
	// store refuses the outcomes if the record has changed since its Revision.
	Disabled *Webhook
	// Event is published to the account's streams, unless it is nil.
	Event *signal.Event
	// Mails go to the account.
	Mails []Mail
	// Waits replace the stored ones of their signals. A Wait without Head and Last is
	// deleted.
	Waits []Wait
}

// Wait keeps the deliveries of one signal to one endpoint in order: each waits until the
// one before it has succeeded, or until the wait has ended.
type Wait struct {
	Signal signal.SignalID
	// Head is a delivery whose attempt failed, of an event at HeadAt. Those of later
	// events wait until Due, which is its next attempt or the end of the wait. Empty once
	// it has ended.
	Head        signal.DeliveryID
	HeadAt, Due time.Time
	// Last is the newest waiting delivery, of an event at LastAt, or empty.
	Last   signal.DeliveryID
	LastAt time.Time
}
