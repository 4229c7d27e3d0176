package http

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Keys keeps API keys. Its errors are *signal.Error, or credentials.ValidationError for values of a body. See
// credentials.Keys.
type Keys interface {
	CreateKey(ctx context.Context, account signal.AccountID, name string, scopes []string,
		expiresIn *int64) (credential.APIKey, string, error)
	List(ctx context.Context, account signal.AccountID, limit, offset int) ([]credential.APIKey, int, error)
	RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID) error
}

// KeyHandlers answer for API keys.
type KeyHandlers struct {
	keys Keys
	now  func() time.Time
}

// NewKeyHandlers returns the handlers of API keys.
func NewKeyHandlers(keys Keys, now func() time.Time) *KeyHandlers { return &KeyHandlers{keys, now} }

// Routes implements Resource.
func (h *KeyHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/auth/api-key", methods{"POST": {guard: jwtOnly, class: limits.Writes, handle: h.create}}),
		route("/v1/auth/api-keys", methods{"GET": {guard: jwtOnly, class: limits.Reads, handle: h.list,
			params: []string{"limit", "offset"}}}),
		route("/v1/auth/api-keys/{key_id}", methods{"DELETE": {guard: jwtOnly, class: limits.Writes,
			handle: checked(h.revoke)}}),
	}
}

// maxScopes limits the list in a body, which may hold duplicates.
const maxScopes = 100

// newKeyView is the API key object of the specification.
type newKeyView struct {
	KeyID     signal.KeyID   `json:"key_id"`
	APIKey    string         `json:"api_key"`
	Name      string         `json:"name"`
	Scopes    []signal.Scope `json:"scopes"`
	CreatedAt instant        `json:"created_at"`
	ExpiresAt instant        `json:"expires_at"`
}

// keyView is an API key in lists.
type keyView struct {
	KeyID      signal.KeyID   `json:"key_id"`
	Name       string         `json:"name"`
	Scopes     []signal.Scope `json:"scopes"`
	CreatedAt  instant        `json:"created_at"`
	ExpiresAt  instant        `json:"expires_at"`
	Prefix     string         `json:"prefix"`
	LastUsedAt instant        `json:"last_used_at"`
	Status     string         `json:"status"`
}

type keyList struct {
	APIKeys []keyView `json:"api_keys"`
	Total   int       `json:"total"`
}

// create answers POST /v1/auth/api-key.
func (h *KeyHandlers) create(c *call) error {
	var name string
	var scopes []string
	var expiresIn *int64
	if err := c.decode(func(o *request.Object) {
		given := o.Given("name", credentials.KeyNameRule)
		if name = strings.TrimSpace(given); name != "" {
			if code, detail := request.CheckText(name, credentials.MaxKeyName); code != "" {
				o.Bad("name", code, detail)
			}
		} else if given != "" {
			o.Bad("name", request.CodeTooShort, credentials.BlankName)
		}
		var listed bool
		rule := request.SomeOf(signal.Scopes)
		scopes, listed = o.Texts("scopes", maxScopes, rule, func(item string) (code, detail string) {
			if signal.ScopesOf(signal.Scope(item)) == 0 {
				return request.CodeInvalidValue, request.OneOf(signal.Scopes)
			}
			return "", ""
		})
		if listed && len(scopes) == 0 {
			o.Bad("scopes", request.CodeTooShort, rule)
		}
		if n, ok := o.Integer("expires_in", 1, credentials.MaxExpiresIn); ok {
			expiresIn = &n
		}
	}); err != nil {
		return err
	}
	k, secret, err := h.keys.CreateKey(c.client(), c.principal.Account, name, scopes, expiresIn)
	if err != nil {
		return err
	}
	return c.value(http.StatusCreated, newKeyView{KeyID: k.ID, APIKey: secret, Name: k.Name, Scopes: k.Scopes.List(),
		CreatedAt: instant(k.CreatedAt), ExpiresAt: instant(k.ExpiresAt)})
}

// list answers GET /v1/auth/api-keys.
func (h *KeyHandlers) list(c *call) error {
	p := c.query.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	keys, total, err := h.keys.List(c.r.Context(), c.principal.Account, p.Limit, p.Offset)
	if err != nil {
		return err
	}
	list, now := make([]keyView, len(keys)), h.now()
	for i, k := range keys {
		list[i] = keyView{
			KeyID:      k.ID,
			Name:       k.Name,
			Scopes:     k.Scopes.List(),
			CreatedAt:  instant(k.CreatedAt),
			ExpiresAt:  instant(k.ExpiresAt),
			Prefix:     k.Prefix,
			LastUsedAt: instant(k.LastUsedAt),
			Status:     keyStatus(k, now),
		}
	}
	return c.value(http.StatusOK, keyList{APIKeys: list, Total: total})
}

func keyStatus(k credential.APIKey, now time.Time) string {
	if !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) {
		return "expired"
	}
	return "active"
}

// revoke answers DELETE /v1/auth/api-keys/{key_id}.
func (h *KeyHandlers) revoke(c *call) error {
	id, ok := signal.ParseKeyID(c.vars["key_id"])
	if !ok {
		return signal.NotFound("API key")
	}
	if err := h.keys.RevokeKey(c.client(), c.principal.Account, id); err != nil {
		return err
	}
	return c.noContent()
}
