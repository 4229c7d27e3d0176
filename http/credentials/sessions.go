package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// sessionStore keeps sessions. Methods that end sessions return the events to
// announce, which are in the outbox by then.
type sessionStore interface {
	CreateSession(ctx context.Context, n credential.Session, passwordVersion int64, email credential.Digest,
		max int, now time.Time) (ended []signal.Event, lockedUntil time.Time, err error)
	SessionByLocator(ctx context.Context, locator credential.Digest) (credential.Session, error)
	RotateSession(ctx context.Context, next credential.Session, presented credential.Digest,
		now time.Time) ([]signal.Event, error)
	EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID,
		now time.Time) ([]signal.Event, error)
	EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error)
}

// Tokens are the result of a login or refresh.
type Tokens struct {
	Access    string        // a JWT
	ExpiresIn time.Duration // of Access; whole seconds
	Refresh   string
	Account   signal.AccountID
	Session   signal.SessionID
}

// Sessions begins, refreshes and ends sessions.
type Sessions struct {
	store interface {
		accountStore
		passwordStore
		sessionStore
	}
	hashes    *hasher
	locks     *Locks
	jwt       *tokenIssuer
	announcer *announcer
	audit     auditLog
	o         Options
}

// Login begins a session. ValidationError: a value is missing. KindUnauthorized,
// "invalid_credentials": the email or the password is wrong. KindTooMany, "account_locked":
// too many logins failed, and the password was not checked. It takes the same time whether
// or not the account exists.
func (s *Sessions) Login(ctx context.Context, email, password string) (Tokens, error) {
	var v ValidationError
	email = NormalizeEmail(email)
	v.require("email", email, LoginRule)
	v.require("password", password, LoginRule)
	if err := v.orNil(); err != nil {
		return Tokens{}, err
	}
	who := credential.DigestOf(email)
	if err := s.locks.check(ctx, who, ""); err != nil {
		return Tokens{}, err
	}
	account, stored, err := s.store.AccountByEmail(ctx, email)
	if err != nil && signal.KindOf(err) != signal.KindNotFound {
		return Tokens{}, err
	}
	right, outdated, err := s.hashes.compare(ctx, password, stored.Hash)
	if err != nil {
		return Tokens{}, err
	}
	if !right {
		return Tokens{}, s.locks.fail(ctx, who, account.ID)
	}
	if outdated {
		s.rehash(ctx, account.ID, password, stored.Hash)
	}
	return s.begin(ctx, account.ID, stored.Version, who)
}

// rehash stores a hash of the password with the present parameters. If that fails, the old
// hash remains valid.
func (s *Sessions) rehash(ctx context.Context, account signal.AccountID, password, old string) {
	hash, err := s.hashes.hash(ctx, password)
	if err == nil {
		err = s.store.Rehash(ctx, account, old, hash)
	}
	if err != nil {
		s.audit.log.Warn("a password is not rehashed", "account", account, "err", err)
	}
}

// begin begins a session after a right password. If the account has too many sessions, those
// that were not refreshed for longest end.
func (s *Sessions) begin(
	ctx context.Context, account signal.AccountID, passwordVersion int64, email credential.Digest,
) (Tokens, error) {
	now := s.locks.now()
	n := credential.Session{
		ID:        signal.NewSessionIDAt(now),
		Account:   account,
		CreatedAt: now,
		EndsAt:    now.Add(s.o.SessionTTL),
	}
	tokens, n, err := s.renew(n, "", now)
	if err != nil {
		return Tokens{}, err
	}
	ended, until, err := s.store.CreateSession(ctx, n, passwordVersion, email, s.o.MaxSessions, now)
	s.announcer.announce(ctx, ended)
	if signal.KindOf(err) == signal.KindConflict {
		// The account was deleted, or its password changed, while it was compared.
		return Tokens{}, s.locks.fail(ctx, email, account)
	}
	if err != nil {
		return Tokens{}, err
	}
	if d := until.Sub(now); d > 0 {
		return Tokens{}, s.locks.refuse(ctx, account, d)
	}
	if len(ended) > 0 {
		s.audit.write(ctx, slog.LevelInfo, "sessions ended: the account has too many", account, slog.Int("ended", len(ended)))
	}
	s.audit.write(ctx, slog.LevelInfo, "login", account, sessionAttr(n.ID))
	return tokens, nil
}

// renew issues the next tokens of the session n and returns them with the changed session.
func (s *Sessions) renew(n credential.Session, locator string, now time.Time) (Tokens, credential.Session, error) {
	accessUntil := earlier(now.Truncate(time.Second).Add(s.o.AccessTTL), n.EndsAt)
	access, err := s.jwt.issue(n.Account, n.ID, now, accessUntil)
	if err != nil {
		return Tokens{}, n, fmt.Errorf("issue access token: %w", err)
	}
	refresh := newRefreshToken(locator)
	n.Locator, n.Refresh = digest(refresh[:refreshLocator]), digest(refresh)
	n.RefreshUntil = earlier(now.Add(s.o.RefreshTTL), n.EndsAt)
	n.KeepUntil = n.RefreshUntil
	if accessUntil.After(n.KeepUntil) {
		n.KeepUntil = accessUntil
	}
	expiresIn := accessUntil.Sub(now.Truncate(time.Second)).Truncate(time.Second)
	return Tokens{Access: access, ExpiresIn: expiresIn, Refresh: refresh, Account: n.Account, Session: n.ID}, n, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Refresh invalidates a refresh token and returns the next tokens of its session. It fails
// with KindUnauthorized, "invalid_refresh_token", if the token is unknown, expired or
// revoked, or was used before, which ends the session.
func (s *Sessions) Refresh(ctx context.Context, token string) (Tokens, error) {
	var v ValidationError
	v.require("refresh_token", token, RefreshRule)
	if err := v.orNil(); err != nil {
		return Tokens{}, err
	}
	refuse := func(why reason) (Tokens, error) {
		s.o.Metrics.refused(why)
		return Tokens{}, errInvalidRefresh
	}
	locator, ok := parseRefreshToken(token)
	if !ok {
		return refuse(invalidRefresh)
	}
	n, err := s.store.SessionByLocator(ctx, digest(locator))
	if signal.KindOf(err) == signal.KindNotFound {
		return refuse(invalidRefresh)
	}
	if err != nil {
		return Tokens{}, err
	}
	now := s.locks.now()
	tokens, next, err := s.renew(n, locator, now)
	if err != nil {
		return Tokens{}, err
	}
	ended, err := s.store.RotateSession(ctx, next, digest(token), now)
	if signal.KindOf(err) == signal.KindNotFound {
		return refuse(invalidRefresh)
	}
	if len(ended) > 0 {
		s.audit.write(ctx, slog.LevelWarn, "session ended: a refresh token was used twice", n.Account, sessionAttr(n.ID))
		s.announcer.announce(ctx, ended)
		if err == nil {
			return refuse(reusedRefresh)
		}
	}
	if err != nil {
		return Tokens{}, err
	}
	return tokens, nil
}

// Logout ends the session of p, or all sessions of its account. KindUnauthorized,
// "jwt_required".
func (s *Sessions) Logout(ctx context.Context, p signal.Principal, all bool) error {
	if err := requireJWT(p, s.o.Metrics); err != nil {
		return err
	}
	var ended []signal.Event
	var err error
	if all {
		ended, err = s.store.EndSessions(ctx, p.Account, s.locks.now())
	} else {
		ended, err = s.store.EndSession(ctx, p.Account, p.Session, s.locks.now())
	}
	if inEffect(ended, err) {
		s.audit.write(ctx, slog.LevelInfo, "logout", p.Account, sessionAttr(p.Session), slog.Bool("all", all))
	}
	s.announcer.announce(ctx, ended)
	return err
}
