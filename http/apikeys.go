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
	keys    Keys
	readers *ReaderHandlers
	now     func() time.Time
}

// NewKeyHandlers returns the handlers of API keys.
func NewKeyHandlers(keys Keys, readers *ReaderHandlers, now func() time.Time) *KeyHandlers {
	return &KeyHandlers{keys, readers, now}
}

// Routes implements Resource.
func (h *KeyHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/auth/api-key", methods{"POST": {guard: jwtOnly, class: limits.Writes, handle: h.create}}),
		route("/v1/auth/api-keys", methods{"GET": {guard: jwtOnly, class: limits.Reads, handle: h.list,
			params: []string{"limit", "offset", "view"}},
			"DELETE": {guard: jwtOnly, class: limits.Writes, handle: h.readers.revoke, params: []string{"name_prefix"}}}),
		route("/v1/auth/api-keys/batch", methods{"POST": {guard: jwtOnly, class: limits.Writes, handle: h.readers.createMany}}),
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
	*readerTerms
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
	var in credentials.NewReader
	if err := c.decode(func(o *request.Object) {
		name = readKeyName(o, "name", credentials.MaxKeyName)
		scopes := readScopes(o, o.Has("view"))
		in = h.readers.read(c, o)
		in.Scopes = scopes
	}); err != nil {
		return err
	}
	var k credential.APIKey
	var secret string
	var err error
	if in.View != nil {
		k, secret, err = h.readers.o.Readers.CreateReader(c.client(), c.principal.Account, name, in)
	} else {
		k, secret, err = h.keys.CreateKey(c.client(), c.principal.Account, name, in.Scopes, in.ExpiresIn)
	}
	if err != nil {
		return err
	}
	return c.value(http.StatusCreated, newKeyView{KeyID: k.ID, APIKey: secret, Name: k.Name, Scopes: k.Scopes.List(),
		CreatedAt: instant(k.CreatedAt), ExpiresAt: instant(k.ExpiresAt), readerTerms: viewTerms(&k)})
}

// readKeyName reads the trimmed name of a key, or what names begin with.
func readKeyName(o *request.Object, member string, maxLength int) string {
	given := o.Given(member, credentials.KeyNameRule(maxLength))
	name := strings.TrimSpace(given)
	if name != "" {
		if code, detail := request.CheckText(name, maxLength); code != "" {
			o.Bad(member, code, detail)
		}
	} else if given != "" {
		o.Bad(member, request.CodeTooShort, credentials.BlankName)
	}
	return name
}

// readScopes reads the scopes of a key, which are those of readers for a reader.
func readScopes(o *request.Object, reader bool) []string {
	allowed := signal.AllScopes
	if reader {
		allowed = signal.ReaderScopes
	}
	rule := request.SomeOf(allowed.List())
	scopes, listed := o.Texts("scopes", maxScopes, rule, func(item string) (code, detail string) {
		switch {
		case allowed.Has(signal.Scope(item)):
			return "", ""
		case signal.AllScopes.Has(signal.Scope(item)):
			return request.CodeInvalidValue, "a reader, a key with a view, cannot have it: " + request.OneOf(allowed.List())
		}
		return request.CodeInvalidValue, request.OneOf(allowed.List())
	})
	if listed && len(scopes) == 0 {
		o.Bad("scopes", request.CodeTooShort, rule)
	}
	return scopes
}

// list answers GET /v1/auth/api-keys.
func (h *KeyHandlers) list(c *call) error {
	p := c.query.Page()
	readers := request.Option(c.query, "view", []string{"true", "false"}) == "true"
	if err := c.faults.Err(); err != nil {
		return err
	}
	if readers {
		return h.readers.list(c, p)
	}
	keys, total, err := h.keys.List(c.r.Context(), c.principal.Account, p.Limit, p.Offset)
	if err != nil {
		return err
	}
	now := h.now()
	return c.value(http.StatusOK, keyList{views(keys, func(k *credential.APIKey) keyView { return viewKey(k, now) }), total})
}

func viewKey(k *credential.APIKey, now time.Time) keyView {
	return keyView{
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

func keyStatus(k *credential.APIKey, now time.Time) string {
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
