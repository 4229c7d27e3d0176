package credentials

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
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

// Authenticate returns the principal of token, an API key or an access token. It fails with
// KindUnauthorized, "missing_credentials" if token is empty, otherwise "invalid_token"; with
// KindUnavailable if the store is needed and does not answer.
func (s *Service) Authenticate(ctx context.Context, token string) (signal.Principal, error) {
	switch {
	case token == "":
		s.metrics.refused(missingCredentials)
		return signal.Principal{}, errMissing
	case strings.HasPrefix(token, credential.KeyPrefix):
		return s.authenticateKey(ctx, token)
	}
	return s.authenticateJWT(ctx, token)
}

// RequireJWT refuses a principal that was authenticated by an API key: KindUnauthorized,
// "jwt_required".
func (s *Service) RequireJWT(p signal.Principal) error {
	if p.Session == "" {
		s.metrics.refused(jwtRequired)
		return errJWTRequired
	}
	return nil
}

func (s *Service) refuse(why reason) (signal.Principal, error) {
	s.metrics.refused(why)
	return signal.Principal{}, errInvalidToken
}

func (s *Service) authenticateKey(ctx context.Context, token string) (signal.Principal, error) {
	if !credential.IsKey(token) {
		return s.refuse(malformedKey)
	}
	d := digest(token)
	e, renew := s.keys.get(d)
	if e == nil {
		var err error
		if e, err = s.fetchKey(ctx, d); err != nil {
			return signal.Principal{}, err
		}
	}
	if renew {
		s.lookups.Go(ctx, func(ctx context.Context) { s.guard(func() { _, _ = s.fetchKey(ctx, d) }) })
	}
	if e.missing {
		return s.refuse(unknownKey)
	}
	p := e.value.principal
	now := s.o.Now()
	if !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt) {
		return s.refuse(expiredKey)
	}
	s.uses.note(d, e.value.usedMinute, now)
	return p, nil
}

func (s *Service) fetchKey(ctx context.Context, d credential.Digest) (*entry[keyState], error) {
	return s.keys.fetch(ctx, d, string(d[:]), func(ctx context.Context) (keyState, signal.AccountID, error) {
		k, err := s.store.KeyByDigest(ctx, d)
		if err != nil {
			return keyState{}, "", err
		}
		state := keyState{usedMinute: new(atomic.Int64), principal: signal.Principal{
			Account: k.Account, Key: k.ID, Scopes: k.Scopes, ExpiresAt: k.ExpiresAt}}
		state.usedMinute.Store(minuteOf(k.LastUsedAt))
		s.keys.mu.RLock()
		if before := s.keys.present[d]; before != nil {
			state.usedMinute = before.value.usedMinute
		}
		s.keys.mu.RUnlock()
		return state, k.Account, nil
	})
}

func (s *Service) authenticateJWT(ctx context.Context, token string) (signal.Principal, error) {
	if len(token) > maxToken {
		return s.refuse(invalidJWT)
	}
	d := digest(token)
	p, ok := s.tokens.get(d)
	if !ok {
		var err error
		if p, err = s.jwt.verify(token); err != nil {
			if errors.Is(err, errExpired) {
				return s.refuse(expiredJWT)
			}
			return s.refuse(invalidJWT)
		}
		s.tokens.put(d, p)
	}
	now := s.o.Now()
	if !now.Before(p.ExpiresAt) {
		return s.refuse(expiredJWT)
	}
	e, renew := s.sessions.get(p.Session)
	if e == nil {
		var err error
		if e, err = s.fetchSession(ctx, p.Session); err != nil {
			return signal.Principal{}, err
		}
	}
	if renew {
		s.lookups.Go(ctx, func(ctx context.Context) { s.guard(func() { _, _ = s.fetchSession(ctx, p.Session) }) })
	}
	if e.missing || e.account != p.Account || !now.Before(e.value.ends) {
		return s.refuse(endedSession)
	}
	return p, nil
}

func (s *Service) fetchSession(ctx context.Context, id signal.SessionID) (*entry[sessionState], error) {
	return s.sessions.fetch(ctx, id, string(id), func(ctx context.Context) (sessionState, signal.AccountID, error) {
		n, err := s.store.SessionByID(ctx, id)
		return sessionState{ends: n.EndsAt}, n.Account, err
	})
}

// Forget removes the credentials that account.deleted, key.revoked and session.ended events
// have ended from the caches. It ignores other events. It does not block, so that the loop
// that reads the event logs can call it.
func (s *Service) Forget(events []signal.Event) {
	for i := range events {
		e := &events[i]
		switch e.Type {
		case signal.KeyRevoked:
			s.keys.forgetIf(e.Account, func(k keyState) bool { return string(k.principal.Key) == e.Subject })
		case signal.SessionEnded:
			if e.Subject != "" {
				s.sessions.forget(signal.SessionID(e.Subject))
				continue
			}
			s.sessions.forgetIf(e.Account, func(sessionState) bool { return true })
		case signal.AccountDeleted:
			s.keys.forgetIf(e.Account, func(keyState) bool { return true })
			s.sessions.forgetIf(e.Account, func(sessionState) bool { return true })
		}
	}
}

// ForgetAll clears the caches, after events may have been missed.
func (s *Service) ForgetAll() {
	s.keys.forgetAll()
	s.sessions.forgetAll()
}
