package client

import (
	"time"
)

// Session is a login.
type Session struct {
	Object
	AccessToken string `json:"access_token"`
	ExpiresIn   int    `json:"expires_in"` // seconds
}

// APIKey is an API key; the secret is in the answer to its creation only.
type APIKey struct {
	Object
	ID        string     `json:"key_id"`
	Secret    string     `json:"api_key"`
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// NewAPIKey is what an API key is made of.
type NewAPIKey struct {
	Name      string   `json:"name"`                 // unique in the account
	Scopes    []string `json:"scopes,omitempty"`     // all if empty
	ExpiresIn int64    `json:"expires_in,omitempty"` // seconds; never if 0
}

// Readiness is the answer of /readyz: whether a service can serve requests, and what it warns of.
type Readiness struct {
	Object
	Status   string            `json:"status"` // "ready", or why not
	Checks   map[string]string `json:"checks"`
	Warnings []string          `json:"warnings"`
}

// Account is the account of a credential.
type Account struct {
	Object
	ID    string `json:"account_id"`
	Email string `json:"email"`
}
