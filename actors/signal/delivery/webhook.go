package delivery

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"net/url"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// WebhookStatus is whether a webhook receives deliveries.
type WebhookStatus string

// The statuses of webhooks.
const (
	WebhookEnabled  WebhookStatus = "enabled"
	WebhookDisabled WebhookStatus = "disabled"
)

// WebhookStatuses lists them, for metrics and the API description.
var WebhookStatuses = []WebhookStatus{WebhookEnabled, WebhookDisabled}

// DisabledReason is why a webhook was disabled.
type DisabledReason string

// The reasons.
const (
	DisabledFailing DisabledReason = "failing" // by the service, because attempts failed for too long
	DisabledManual  DisabledReason = "manual"  // by the account
)

// DisabledReasons lists them, for metrics.
var DisabledReasons = []DisabledReason{DisabledFailing, DisabledManual}

// WebhookEvents lists the types of events that a webhook may subscribe to, in the
// order of the specification.
var WebhookEvents = []signal.EventType{
	signal.SignalCreated,
	signal.SignalUpdated,
	signal.SignalClosed,
	signal.AgentStarted,
	signal.AgentCompleted,
	signal.AgentFailed,
	signal.WebhookTest,
	signal.LogCheckpoint,
}

// Format is the form of the requests of a webhook.
type Format string

// The formats of webhooks. The chat formats (see Chat) are messages for people.
const (
	Standard Format = "standard" // the envelope of the event
	Slack    Format = "slack"    // an incoming webhook of Slack, or of another service that takes these
	Discord  Format = "discord"  // a webhook of Discord
	Telegram Format = "telegram" // sendMessage of a Telegram bot
	Ntfy     Format = "ntfy"     // a topic of ntfy
	Template Format = "template" // a text by a template of the account
)

// Formats lists them, in the order of the API description.
var Formats = []Format{Standard, Slack, Discord, Telegram, Ntfy, Template}

// Chat reports whether f is a message to a chat service. The URL of such a webhook contains a secret of that
// service.
func (f Format) Chat() bool { return f == Slack || f == Discord || f == Telegram || f == Ntfy }

// PerMinute returns how many requests a minute the service of a format accepts, by its documentation or, of Discord, by
// common experience; 0 if there is no such service. A request that comes too early is answered 429.
// Slack: https://docs.slack.dev/apis/web-api/rate-limits ("1 per second")
// Discord: https://discord.com/developers/docs/topics/rate-limits (in headers only: 30 a minute for a webhook)
// Telegram: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this (20 a minute in a group)
// ntfy: https://docs.ntfy.sh/config/#rate-limiting (a burst of 60, then one each 5 s for all requests of a visitor)
func (f Format) PerMinute() int {
	switch f {
	case Slack:
		return 60
	case Discord:
		return 30
	case Telegram:
		return 20
	case Ntfy:
		return 12
	default:
		return 0
	}
}

// MaxPerMinute is the maximum of Webhook.MaxPerMinute.
const MaxPerMinute = 60_000

// Limits of a webhook's members, in characters.
const (
	MaxWebhookChatID      = 64
	MaxWebhookTemplate    = 8192
	MaxWebhookContentType = 100
	MaxWebhookURL         = 2048
	MaxWebhookSecret      = 256
	MaxWebhookDescription = 200
)

// SecretPrefix begins generated signing secrets, as in Standard Webhooks; the base64 of
// secretBytes random bytes follows.
const (
	SecretPrefix = "whsec_"
	secretBytes  = 32
)

// NewSecret returns a new signing secret.
func NewSecret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // never fails
	return SecretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// Webhook is an endpoint that an account has registered.
type Webhook struct {
	ID          signal.WebhookID
	Account     signal.AccountID
	URL         string
	Events      []signal.EventType // without duplicates, as given
	Description *string            // nil without one
	Filter      *signal.Filter     // of the signals whose events it gets; nil for all
	APIVersion  string             // of the bodies of its events, such as "2026-11-01"
	Format      Format             // empty for Standard
	ChatID      string             // of Telegram: the chat that gets the messages; else empty
	Template    string             // of the format Template; else empty
	ContentType string             // of the texts of the template; else empty
	// MaxPerMinute bounds the requests in a minute, up to the constant; 0 for that of the format. See Rate.
	MaxPerMinute int
	Status       WebhookStatus
	CreatedAt    time.Time
	UpdatedAt    time.Time

	DisabledAt     time.Time      // zero while it is enabled
	DisabledReason DisabledReason // empty while it is enabled

	// Since is the position in the log at which it was registered or last enabled: it
	// gets the events after it, or all events if it is zero. Set by the store.
	Since signal.Position

	// Secret signs requests; it is encrypted. After a rotation PreviousSecret signs too,
	// until PreviousUntil; otherwise nil and zero.
	Secret         []byte
	PreviousSecret []byte
	PreviousUntil  time.Time

	// Health is stored apart: only the owner of the partition writes it. Failures before
	// ClearedAt, when the webhook was last enabled again, do not count. Set by the store.
	Health    WebhookHealth
	ClearedAt time.Time

	// Revision identifies the record that was read: a change based on an older one is
	// refused. Set by the store.
	Revision string
}

// ShownURL returns the URL as it may be shown and mailed: of chat formats without the path and the query,
// which contain the secret.
func (w *Webhook) ShownURL() string {
	if !w.Format.Chat() {
		return w.URL
	}
	u, err := url.Parse(w.URL)
	if err != nil {
		return hiddenPart
	}
	return u.Scheme + "://" + u.Host + "/" + hiddenPart
}

const hiddenPart = "***"

// Rate returns how many requests a minute the webhook gets at most, or 0 if there is no limit.
func (w *Webhook) Rate() int { return cmp.Or(w.MaxPerMinute, w.Format.PerMinute()) }

// WebhookHealth is the recent record of an endpoint's answers. The zero value is healthy,
// or not yet called.
type WebhookHealth struct {
	FailingSince time.Time // the first failed attempt since a success, or zero
	Failures     int       // failed attempts since then, including the first
	Warned       int       // warnings sent since then
	// HeldUntil is the end of the wait that the endpoint has asked for. It stays until a later
	// success, or is zero.
	HeldUntil time.Time
}

// WebhookStats are counts over all partitions, for metrics.
type WebhookStats struct {
	Pending           int64
	Enabled, Disabled int64
	OldestDue         time.Time // of the pending deliveries, or zero
}
