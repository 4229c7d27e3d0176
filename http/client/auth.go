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
	// These are of readers only.
	View           *View  `json:"view"`
	MaxConnections int    `json:"max_connections"`
	Notice         string `json:"notice"`
}

// View is what a reader sees: signals of which the agent, the asset and the strategy are all among these. Nil stands for all, an
// empty list for none.
type View struct {
	Agents     []string `json:"agents,omitzero"`
	Assets     []string `json:"assets,omitzero"`
	Strategies []string `json:"strategies,omitzero"`
}

// NewAPIKey is what an API key is made of.
type NewAPIKey struct {
	Name      string   `json:"name"`                 // unique in the account
	Scopes    []string `json:"scopes,omitempty"`     // all if empty
	ExpiresIn int64    `json:"expires_in,omitempty"` // seconds; never if 0
	View      *View    `json:"view,omitempty"`       // makes the key a reader
	// MaxConnections is how many streams a reader may have at once; 5 if 0.
	MaxConnections int `json:"max_connections,omitempty"`
}

// NewReaders is what readers are made of.
type NewReaders struct {
	NamePrefix     string `json:"name_prefix"` // their names are this, a hyphen and a number
	Count          int    `json:"count"`       // 1 to 500
	View           View   `json:"view"`
	ExpiresIn      int64  `json:"expires_in,omitempty"`      // seconds; never if 0
	MaxConnections int    `json:"max_connections,omitempty"` // 5 if 0
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
