package credentials

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// keyState is the cached state of an API key.
type keyState struct {
	principal signal.Principal
	// usedMinute is the last recorded use, in minutes since 1970. Successive answers of the
	// store share it.
	usedMinute *atomic.Int64
}

// sessionState is the cached state of a session that has not ended.
type sessionState struct {
	ends time.Time
}

// keyReader reads API keys by the digest of their secrets, and stores when they were last used.
type keyReader interface {
	KeyByDigest(ctx context.Context, secret credential.Digest) (credential.APIKey, error)
	NoteKeyUses(ctx context.Context, uses map[credential.Digest]time.Time) error
}

// sessionReader reads sessions.
type sessionReader interface {
	SessionByID(ctx context.Context, id signal.SessionID) (credential.Session, error)
}

// Authenticator authenticates callers, and knows which records are public.
type Authenticator struct {
	store interface {
		keyReader
		sessionReader
		publicationReader
	}
	jwt     *tokenIssuer
	now     func() time.Time
	log     *slog.Logger
	metrics *Metrics

	keys     *cache[credential.Digest, keyState]
	sessions *cache[signal.SessionID, sessionState]
	records  *cache[string, published] // by slug
	// tokens are the principals of access tokens with a valid signature. Each use checks
	// whether the token has expired and whether its session has ended.
	tokens  *bounded[credential.Digest, signal.Principal]
	lookups *tasks.Group // in the store, which callers share

	uses keyUses
}

func newAuthenticator(store Store, jwt *tokenIssuer, o Options) *Authenticator {
	lookups := &tasks.Group{}
	return &Authenticator{
		store:    store,
		jwt:      jwt,
		now:      o.Now,
		log:      o.Log.With("component", "credentials"),
		metrics:  o.Metrics,
		keys:     newCache[credential.Digest, keyState](o.Cached, o.Log, lookups),
		sessions: newCache[signal.SessionID, sessionState](o.Cached, o.Log, lookups),
		records:  newCache[string, published](o.Cached, o.Log, lookups),
		tokens:   newBounded[credential.Digest, signal.Principal](o.Cached),
		lookups:  lookups,
	}
}

// Close ends the lookups in flight and waits for them. Later ones fail with KindUnavailable.
func (a *Authenticator) Close(ctx context.Context) error { return a.lookups.Close(ctx) }

// Authenticate returns the principal of token, an API key or an access token. It fails with
// KindUnauthorized, "missing_credentials" if token is empty, otherwise "invalid_token"; with
// KindUnavailable if the store is needed and does not answer.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (signal.Principal, error) {
	switch {
	case token == "":
		a.metrics.refused(missingCredentials)
		return signal.Principal{}, errMissing
	case strings.HasPrefix(token, credential.KeyPrefix):
		return a.authenticateKey(ctx, token)
	}
	return a.authenticateJWT(ctx, token)
}

// RequireJWT refuses a principal that was authenticated by an API key: KindUnauthorized,
// "jwt_required".
func (a *Authenticator) RequireJWT(p signal.Principal) error { return requireJWT(p, a.metrics) }

func requireJWT(p signal.Principal, m *Metrics) error {
	if p.Session == "" {
		m.refused(jwtRequired)
		return errJWTRequired
	}
	return nil
}

func (a *Authenticator) refuse(why reason) (signal.Principal, error) {
	a.metrics.refused(why)
	return signal.Principal{}, errInvalidToken
}

func (a *Authenticator) authenticateKey(ctx context.Context, token string) (signal.Principal, error) {
	if !credential.IsKey(token) {
		return a.refuse(malformedKey)
	}
	d := digest(token)
	e, renew := a.keys.get(d)
	if e == nil {
		var err error
		if e, err = a.fetchKey(ctx, d); err != nil {
			return signal.Principal{}, err
		}
	}
	if renew {
		a.lookups.Go(ctx, func(ctx context.Context) {
			panics.Guard(a.log, panics.Credentials, func() { _, _ = a.fetchKey(ctx, d) })
		})
	}
	if e.missing {
		return a.refuse(unknownKey)
	}
	p := e.value.principal
	now := a.now()
	if !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt) {
		return a.refuse(expiredKey)
	}
	a.uses.note(d, e.value.usedMinute, now)
	return p, nil
}

func (a *Authenticator) fetchKey(ctx context.Context, d credential.Digest) (*entry[keyState], error) {
	return a.keys.fetch(ctx, d, string(d[:]), func(ctx context.Context) (keyState, signal.AccountID, error) {
		k, err := a.store.KeyByDigest(ctx, d)
		if err != nil {
			return keyState{}, "", err
		}
		state := keyState{usedMinute: new(atomic.Int64), principal: signal.Principal{
			Account: k.Account, Key: k.ID, Scopes: k.Scopes, ExpiresAt: k.ExpiresAt, View: k.View,
			MaxConnections: k.MaxConnections}}
		state.usedMinute.Store(minuteOf(k.LastUsedAt))
		a.keys.mu.RLock()
		if before := a.keys.present[d]; before != nil {
			state.usedMinute = before.value.usedMinute
		}
		a.keys.mu.RUnlock()
		return state, k.Account, nil
	})
}

func (a *Authenticator) authenticateJWT(ctx context.Context, token string) (signal.Principal, error) {
	if len(token) > maxToken {
		return a.refuse(invalidJWT)
	}
	d := digest(token)
	p, ok := a.tokens.get(d)
	if !ok {
		var err error
		if p, err = a.jwt.verify(token); err != nil {
			if errors.Is(err, errExpired) {
				return a.refuse(expiredJWT)
			}
			return a.refuse(invalidJWT)
		}
		a.tokens.put(d, p)
	}
	now := a.now()
	if !now.Before(p.ExpiresAt) {
		return a.refuse(expiredJWT)
	}
	e, renew := a.sessions.get(p.Session)
	if e == nil {
		var err error
		if e, err = a.fetchSession(ctx, p.Session); err != nil {
			return signal.Principal{}, err
		}
	}
	if renew {
		a.lookups.Go(ctx, func(ctx context.Context) {
			panics.Guard(a.log, panics.Credentials, func() { _, _ = a.fetchSession(ctx, p.Session) })
		})
	}
	if e.missing || e.account != p.Account || !now.Before(e.value.ends) {
		return a.refuse(endedSession)
	}
	return p, nil
}

func (a *Authenticator) fetchSession(ctx context.Context, id signal.SessionID) (*entry[sessionState], error) {
	return a.sessions.fetch(ctx, id, string(id), func(ctx context.Context) (sessionState, signal.AccountID, error) {
		n, err := a.store.SessionByID(ctx, id)
		return sessionState{ends: n.EndsAt}, n.Account, err
	})
}

// Forget removes the credentials that account.deleted, key.revoked and session.ended events
// have ended from the caches. It ignores other events. It does not block, so that the loop
// that reads the event logs can call it.
func (a *Authenticator) Forget(events []signal.Event) {
	revoked := map[signal.AccountID]map[string]bool{} // an account may have many keys, so its cached ones are searched once
	for i := range events {
		e := &events[i]
		switch e.Type {
		case signal.KeyRevoked:
			if revoked[e.Account] == nil {
				revoked[e.Account] = map[string]bool{}
			}
			revoked[e.Account][e.Subject] = true
		case signal.SessionEnded:
			if e.Subject != "" {
				a.sessions.forget(signal.SessionID(e.Subject))
				continue
			}
			a.sessions.forgetIf(e.Account, func(sessionState) bool { return true })
		case signal.AccountDeleted:
			a.keys.forgetIf(e.Account, func(keyState) bool { return true })
			a.sessions.forgetIf(e.Account, func(sessionState) bool { return true })
			a.forgetRecords(e.Account)
		}
	}
	for account, ids := range revoked {
		a.keys.forgetIf(account, func(k keyState) bool { return ids[string(k.principal.Key)] })
	}
}

// ForgetAll clears the caches, after events may have been missed.
func (a *Authenticator) ForgetAll() {
	a.keys.forgetAll()
	a.sessions.forgetAll()
	a.records.forgetAll()
}

// prune frees the memory of what is no longer valid.
func (a *Authenticator) prune() {
	a.keys.prune()
	a.sessions.prune()
	a.records.prune()
	now := a.now()
	a.tokens.removeIf(func(p signal.Principal) bool { return !now.Before(p.ExpiresAt) })
}

// storeUses stores when keys were last used.
func (a *Authenticator) storeUses(ctx context.Context) {
	uses := a.uses.take()
	if len(uses) == 0 {
		return
	}
	if err := a.store.NoteKeyUses(ctx, uses); err != nil {
		a.uses.putBack(uses)
		a.log.Warn("uses of API keys are not stored yet", "err", err)
	}
}
