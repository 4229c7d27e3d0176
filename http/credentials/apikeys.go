package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/request"
)

// keyStore keeps API keys by the digest of their secrets.
type keyStore interface {
	CreateKey(ctx context.Context, k credential.APIKey, secret credential.Digest, max int) error
	Keys(ctx context.Context, account signal.AccountID) ([]credential.APIKey, error)
	RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID, now time.Time) ([]signal.Event, error)
}

// maxKeys is the maximum number of API keys of an account.
const maxKeys = 100

// Keys keeps API keys.
type Keys struct {
	store     keyStore
	announcer *announcer
	audit     auditLog
	now       func() time.Time
}

// CreateKey creates an API key and returns it with its secret, which is not stored. Without
// scopes the key has all; without expiresIn, in seconds, it never expires. ValidationError:
// the faults of "name", "scopes", "scopes/i" and "expires_in". KindConflict: "name_taken",
// "limit_reached".
func (k *Keys) CreateKey(
	ctx context.Context, account signal.AccountID, name string, scopes []string, expiresIn *int64,
) (credential.APIKey, string, error) {
	var v ValidationError
	granted := checkScopes(&v, scopes)
	v.require("name", name, KeyNameRule)
	trimmed := strings.TrimSpace(name)
	switch {
	case name == "":
	case trimmed == "":
		v.add("name", request.CodeTooShort, BlankName)
	case utf8.RuneCountInString(trimmed) > MaxKeyName:
		v.add("name", request.CodeTooLong, request.AtMost(MaxKeyName))
	}
	if expiresIn != nil && (*expiresIn < 1 || *expiresIn > MaxExpiresIn) {
		v.add("expires_in", request.CodeOutOfRange, fmt.Sprintf("must be 1 to %d seconds", MaxExpiresIn))
	}
	if err := v.orNil(); err != nil {
		return credential.APIKey{}, "", err
	}
	secret := newKeySecret()
	created := credential.APIKey{
		ID:        signal.NewKeyID(),
		Account:   account,
		Name:      trimmed,
		Prefix:    secret[:keyShown],
		Scopes:    granted,
		CreatedAt: k.now(),
	}
	if expiresIn != nil {
		created.ExpiresAt = created.CreatedAt.Add(time.Duration(*expiresIn) * time.Second)
	}
	if err := k.store.CreateKey(ctx, created, digest(secret), maxKeys); err != nil {
		return credential.APIKey{}, "", err
	}
	k.audit.write(ctx, slog.LevelInfo, "API key created", account, keyAttr(created.ID))
	return created, secret, nil
}

// checkScopes returns the set of scopes and records unknown ones. Nil stands for all.
func checkScopes(v *ValidationError, scopes []string) signal.ScopeSet {
	if scopes == nil {
		return signal.AllScopes
	}
	if len(scopes) == 0 {
		v.add("scopes", request.CodeTooShort, "must name at least one of: "+request.Joined(signal.Scopes))
	}
	var set signal.ScopeSet
	for i, name := range scopes {
		bit := signal.ScopesOf(signal.Scope(name))
		if bit == 0 {
			v.add(fmt.Sprintf("scopes/%d", i), request.CodeInvalidValue, request.OneOf(signal.Scopes))
		}
		set |= bit
	}
	return set
}

// List returns at most limit keys of the account that are not revoked, after the first
// offset ones, newest first, and the number of all.
func (k *Keys) List(
	ctx context.Context, account signal.AccountID, limit, offset int,
) ([]credential.APIKey, int, error) {
	keys, err := k.store.Keys(ctx, account)
	if err != nil {
		return nil, 0, err
	}
	from := min(max(offset, 0), len(keys))
	to := min(from+max(limit, 0), len(keys))
	return keys[from:to], len(keys), nil
}

// RevokeKey revokes a key. This process refuses it at once, all others within a second.
// KindNotFound.
func (k *Keys) RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID) error {
	events, err := k.store.RevokeKey(ctx, account, id, k.now())
	if inEffect(events, err) {
		k.audit.write(ctx, slog.LevelInfo, "API key revoked", account, keyAttr(id))
	}
	k.announcer.announce(ctx, events)
	return err
}
