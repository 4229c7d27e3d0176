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
	SessionByID(ctx context.Context, id signal.SessionID) (credential.Session, error)
	SessionByLocator(ctx context.Context, locator credential.Digest) (credential.Session, error)
	RotateSession(ctx context.Context, next credential.Session, presented credential.Digest,
		now time.Time) ([]signal.Event, error)
	EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID,
		now time.Time) ([]signal.Event, error)
	EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error)
}

// lockStore counts failed logins by the digest of the email.
type lockStore interface {
	LockedUntil(ctx context.Context, email credential.Digest) (time.Time, error)
	FailLogin(ctx context.Context, email credential.Digest, r credential.LockRules,
		now time.Time) (until time.Time, locked bool, err error)
	Unlock(ctx context.Context, email credential.Digest) error
}

// Tokens are the result of a login or refresh.
type Tokens struct {
	Access    string        // a JWT
	ExpiresIn time.Duration // of Access; whole seconds
	Refresh   string
	Account   signal.AccountID
	Session   signal.SessionID
}

// Login begins a session. ValidationError: a value is missing. KindUnauthorized,
// "invalid_credentials": the email or the password is wrong. KindTooMany, "account_locked":
// too many logins failed, and the password was not checked. It takes the same time whether
// or not the account exists.
func (s *Service) Login(ctx context.Context, email, password string) (Tokens, error) {
	var v ValidationError
	email = NormalizeEmail(email)
	v.require("email", email, LoginRule)
	v.require("password", password, LoginRule)
	if err := v.orNil(); err != nil {
		return Tokens{}, err
	}
	who := credential.DigestOf(email)
	if err := s.checkLock(ctx, who, ""); err != nil {
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
		return Tokens{}, s.failLogin(ctx, who, account.ID)
	}
	if outdated {
		s.rehash(ctx, account.ID, password, stored.Hash)
	}
	return s.begin(ctx, account.ID, stored.Version, who)
}

// checkLock returns an error if the email is locked. account is for the log and may be
// empty.
func (s *Service) checkLock(ctx context.Context, email credential.Digest, account signal.AccountID) error {
	until, err := s.store.LockedUntil(ctx, email)
	if err != nil {
		return err
	}
	if d := until.Sub(s.now()); d > 0 {
		return s.refuseLocked(ctx, account, d)
	}
	return nil
}

// refuseLocked counts and logs a login with an email that is locked for d, and returns its
// error.
func (s *Service) refuseLocked(ctx context.Context, account signal.AccountID, d time.Duration) error {
	s.metrics.refused(accountLocked)
	s.audit(ctx, slog.LevelInfo, "login refused: the email is locked", account)
	return locked(d)
}

// failLogin counts a wrong password and returns the error of the login. Passwords that were
// compared concurrently count in the order of these calls: all after the one that locks the
// email get the error of a locked one.
func (s *Service) failLogin(ctx context.Context, email credential.Digest, account signal.AccountID) error {
	now := s.now()
	// The login counts even if the client leaves.
	until, justLocked, err := s.store.FailLogin(context.WithoutCancel(ctx), email, s.o.Lock, now)
	if err != nil {
		return err
	}
	if justLocked {
		s.metrics.locked()
		s.audit(ctx, slog.LevelWarn, "email locked after failed logins", account, slog.Time("until", until))
	} else if d := until.Sub(now); d > 0 {
		return s.refuseLocked(ctx, account, d)
	} else {
		s.audit(ctx, slog.LevelInfo, "login failed", account)
	}
	s.metrics.refused(wrongPassword)
	return errInvalidCredentials
}

// rehash stores a hash of the password with the present parameters. If that fails, the old
// hash remains valid.
func (s *Service) rehash(ctx context.Context, account signal.AccountID, password, old string) {
	hash, err := s.hashes.hash(ctx, password)
	if err == nil {
		err = s.store.Rehash(ctx, account, old, hash)
	}
	if err != nil {
		s.log.Warn("a password is not rehashed", "account", account, "err", err)
	}
}

// begin begins a session after a right password. If the account has too many sessions, those
// that were not refreshed for longest end.
func (s *Service) begin(
	ctx context.Context, account signal.AccountID, passwordVersion int64, email credential.Digest,
) (Tokens, error) {
	now := s.now()
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
	s.announce(ctx, ended)
	if signal.KindOf(err) == signal.KindConflict {
		// The account was deleted, or its password changed, while it was compared.
		return Tokens{}, s.failLogin(ctx, email, account)
	}
	if err != nil {
		return Tokens{}, err
	}
	if d := until.Sub(now); d > 0 {
		return Tokens{}, s.refuseLocked(ctx, account, d)
	}
	if len(ended) > 0 {
		s.audit(ctx, slog.LevelInfo, "sessions ended: the account has too many", account, slog.Int("ended", len(ended)))
	}
	s.audit(ctx, slog.LevelInfo, "login", account, sessionAttr(n.ID))
	return tokens, nil
}

// renew issues the next tokens of the session n and returns them with the changed session.
func (s *Service) renew(n credential.Session, locator string, now time.Time) (Tokens, credential.Session, error) {
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
func (s *Service) Refresh(ctx context.Context, token string) (Tokens, error) {
	var v ValidationError
	v.require("refresh_token", token, RefreshRule)
	if err := v.orNil(); err != nil {
		return Tokens{}, err
	}
	refuse := func(why reason) (Tokens, error) {
		s.metrics.refused(why)
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
	now := s.now()
	tokens, next, err := s.renew(n, locator, now)
	if err != nil {
		return Tokens{}, err
	}
	ended, err := s.store.RotateSession(ctx, next, digest(token), now)
	if signal.KindOf(err) == signal.KindNotFound {
		return refuse(invalidRefresh)
	}
	if len(ended) > 0 {
		s.audit(ctx, slog.LevelWarn, "session ended: a refresh token was used twice", n.Account, sessionAttr(n.ID))
		s.announce(ctx, ended)
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
func (s *Service) Logout(ctx context.Context, p signal.Principal, all bool) error {
	if err := s.RequireJWT(p); err != nil {
		return err
	}
	var ended []signal.Event
	var err error
	if all {
		ended, err = s.store.EndSessions(ctx, p.Account, s.now())
	} else {
		ended, err = s.store.EndSession(ctx, p.Account, p.Session, s.now())
	}
	if inEffect(ended, err) {
		s.audit(ctx, slog.LevelInfo, "logout", p.Account, sessionAttr(p.Session), slog.Bool("all", all))
	}
	s.announce(ctx, ended)
	return err
}
