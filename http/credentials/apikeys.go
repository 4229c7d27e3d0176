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

// maxKeys is the maximum number of API keys of an account that are no readers.
const maxKeys = 100

// Keys keeps API keys. Readers makes and lists those with a view.
type Keys struct {
	store     keyStore
	announcer *announcer
	audit     auditLog
	now       func() time.Time
}

// CreateKey creates an API key that is no reader and returns it with its secret, which is not stored. Without scopes the
// key has all; without expiresIn, in seconds, it never expires. ValidationError: the faults of "name", "scopes",
// "scopes/i" and "expires_in". KindConflict: "name_taken", "limit_reached".
func (k *Keys) CreateKey(
	ctx context.Context, account signal.AccountID, name string, scopes []string, expiresIn *int64,
) (credential.APIKey, string, error) {
	var v ValidationError
	key := credential.APIKey{Account: account, Scopes: checkScopes(&v, scopes, signal.AllScopes), CreatedAt: k.now()}
	name = checkKeyName(&v, "name", name, MaxKeyName)
	key.ExpiresAt = checkExpiry(&v, key.CreatedAt, expiresIn)
	if err := v.orNil(); err != nil {
		return credential.APIKey{}, "", err
	}
	key, secret := withSecret(key, name)
	if err := k.store.CreateKey(ctx, key, digest(secret), maxKeys); err != nil {
		return credential.APIKey{}, "", err
	}
	k.audit.write(ctx, slog.LevelInfo, "API key created", account, keyAttr(key.ID))
	return key, secret, nil
}

// withSecret returns key with a name, and with an ID and a secret of its own.
func withSecret(key credential.APIKey, name string) (credential.APIKey, string) {
	secret := newKeySecret()
	key.ID, key.Name, key.Prefix = signal.NewKeyID(), name, secret[:keyShown]
	return key, secret
}

// checkKeyName returns the trimmed name and records its fault.
func checkKeyName(v *ValidationError, field, name string, maxLength int) string {
	v.require(field, name, KeyNameRule(maxLength))
	trimmed := strings.TrimSpace(name)
	switch {
	case name == "":
	case trimmed == "":
		v.add(field, request.CodeTooShort, BlankName)
	case utf8.RuneCountInString(trimmed) > maxLength:
		v.add(field, request.CodeTooLong, request.AtMost(maxLength))
	}
	return trimmed
}

// checkExpiry returns when a key that is created now expires, and records the fault of expiresIn.
func checkExpiry(v *ValidationError, now time.Time, expiresIn *int64) time.Time {
	if expiresIn == nil {
		return time.Time{}
	}
	if *expiresIn < 1 || *expiresIn > MaxExpiresIn {
		v.add("expires_in", request.CodeOutOfRange, fmt.Sprintf("must be 1 to %d seconds", MaxExpiresIn))
	}
	return now.Add(time.Duration(*expiresIn) * time.Second)
}

// checkScopes returns the set of scopes, which must be among allowed, and records others. Nil stands for all of allowed.
func checkScopes(v *ValidationError, scopes []string, allowed signal.ScopeSet) signal.ScopeSet {
	if scopes == nil {
		return allowed
	}
	if len(scopes) == 0 {
		v.add("scopes", request.CodeTooShort, "must name at least one of: "+request.Joined(allowed.List()))
	}
	var set signal.ScopeSet
	for i, name := range scopes {
		scope := signal.Scope(name)
		if !allowed.Has(scope) {
			v.add(fmt.Sprintf("scopes/%d", i), request.CodeInvalidValue, request.OneOf(allowed.List()))
		}
		set |= signal.ScopesOf(scope)
	}
	return set
}

// List returns at most limit keys of the account that are neither revoked nor readers, after the first
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

// RevokeKey revokes a key, which may be a reader. This process refuses it at once, all others within a second.
// KindNotFound.
func (k *Keys) RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID) error {
	events, err := k.store.RevokeKey(ctx, account, id, k.now())
	if inEffect(events, err) {
		k.audit.write(ctx, slog.LevelInfo, "API key revoked", account, keyAttr(id))
	}
	k.announcer.announce(ctx, events)
	return err
}
