package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Session is a login.
type Session struct {
	Object
	AccessToken string `json:"access_token"`
	ExpiresIn   int    `json:"expires_in"` // seconds
}

// Login begins a session.
func (c *Client) Login(ctx context.Context, email, password string) (*Session, error) {
	var s Session
	in := map[string]string{"email": email, "password": password}
	return &s, c.send(ctx, request{method: http.MethodPost, path: "/v1/auth/login"}, in, &s)
}

// Logout ends the session whose access token is the key of the client.
func (c *Client) Logout(ctx context.Context) error {
	return c.send(ctx, request{method: http.MethodPost, path: "/v1/auth/logout"}, nil, nil)
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

// CreateKey makes an API key. The key of the client must be an access token.
func (c *Client) CreateKey(ctx context.Context, in NewAPIKey) (*APIKey, error) {
	var k APIKey
	return &k, c.send(ctx, request{method: http.MethodPost, path: "/v1/auth/api-key"}, in, &k)
}

// RevokeKey ends an API key. The key of the client must be an access token.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.send(ctx, request{method: http.MethodDelete, path: "/v1/auth/api-keys/" + url.PathEscape(id)}, nil, nil)
}

// Readiness is the answer of /readyz: whether a service can serve requests, and what it warns of.
type Readiness struct {
	Object
	Status   string            `json:"status"` // "ready", or why not
	Checks   map[string]string `json:"checks"`
	Warnings []string          `json:"warnings"`
}

// Ready asks the service once whether it is ready.
func (c *Client) Ready(ctx context.Context) (*Readiness, error) {
	var r Readiness
	text, err := c.once(ctx, &request{method: http.MethodGet, path: "/readyz"}, "")
	if p, ok := errors.AsType[*Problem](err); ok && p.Status >= 500 {
		if read(p.body, &r) == nil && r.Status != "" {
			return &r, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if read(text, &r) != nil || r.Status == "" {
		return nil, &ConnectError{Kind: AnotherServer, Host: c.Address.Host, Err: &Problem{Status: http.StatusOK}}
	}
	return &r, nil
}

// Account is the account of a credential.
type Account struct {
	Object
	ID    string `json:"account_id"`
	Email string `json:"email"`
}

// Account returns the account of the credential.
func (c *Client) Account(ctx context.Context) (*Account, error) {
	return get[Account](ctx, c, "/v1/account")
}
