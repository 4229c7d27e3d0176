package client

import (
	"time"
)

// Webhook is an endpoint that gets events.
type Webhook struct {
	Object
	ID             string     `json:"webhook_id"`
	URL            string     `json:"url"` // that of a chat service without its secret part
	Events         []string   `json:"events"`
	Description    string     `json:"description"`
	Format         string     `json:"format"`         // "standard", "slack", "discord", "telegram", "ntfy" or "template"
	MaxPerMinute   *int       `json:"max_per_minute"` // nil for no limit
	Status         string     `json:"status"`         // "enabled" or "disabled"
	DisabledReason string     `json:"disabled_reason"`
	FailingSince   *time.Time `json:"failing_since"`
	HeldUntil      *time.Time `json:"held_until"` // it has asked to get no request before
	CreatedAt      time.Time  `json:"created_at"`
}

// NewWebhook is what a webhook is made of. Without a secret the service makes one.
type NewWebhook struct {
	URL         string   `json:"url"`
	Events      []string `json:"events"`
	Secret      string   `json:"secret,omitempty"`
	Description string   `json:"description,omitempty"`
	Format      string   `json:"format,omitempty"`       // "standard" if empty; see Webhook
	ChatID      string   `json:"chat_id,omitempty"`      // of Telegram
	Template    string   `json:"template,omitempty"`     // of the format "template"
	ContentType string   `json:"content_type,omitempty"` // of what the template makes; text/plain if empty
	// MaxPerMinute is the maximum number of requests in a minute, 1 to 60,000; 0 for what its format accepts.
	MaxPerMinute int `json:"max_per_minute,omitempty"`
}

// Delivery is an event on its way to a webhook.
type Delivery struct {
	Object
	ID             string     `json:"delivery_id"`
	Webhook        string     `json:"webhook_id"`
	Event          string     `json:"event_id"`
	Type           string     `json:"event_type"`
	Status         string     `json:"status"` // "pending", "succeeded" or "failed"
	Attempts       int        `json:"attempt_count"`
	NextAttemptAt  *time.Time `json:"next_attempt_at"`
	CompletedAt    *time.Time `json:"completed_at"`
	ResponseStatus *int       `json:"response_status"` // of the last attempt, as Error
	Error          string     `json:"error"`
	CreatedAt      time.Time  `json:"created_at"`
}

// Retried is how many deliveries are sent again.
type Retried struct {
	Object
	Count int `json:"retried"`
}
