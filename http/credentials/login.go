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
	CreateSession(
		ctx context.Context, n credential.Session, passwordVersion int64, email credential.Digest, max int, now time.Time,
	) (ended []signal.Event, lockedUntil time.Time, err error)
	SessionByID(ctx context.Context, id signal.SessionID) (credential.Session, error)
	SessionByLocator(ctx context.Context, locator credential.Digest) (credential.Session, error)
	RotateSession(ctx context.Context, next credential.Session, presented credential.Digest,
		now time.Time) ([]signal.Event, error)
	EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID, now time.Time) ([]signal.Event, error)
	EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error)
}

// lockStore counts failed logins by the digest of the email.
type lockStore interface {
	LockedUntil(ctx context.Context, email credential.Digest) (time.Time, error)
	FailLogin(ctx context.Context, email credential.Digest, r credential.LockRules,
		now time.Time) (until time.Time, locked bool, err error)
	Unlock(ctx context.Context, email credential.Digest) error
}

// Tokens are what a login or refresh gives to the client.
type Tokens struct {
	Access    string        // a JWT
	ExpiresIn time.Duration // of Access; whole seconds
	Refresh   string
	Account   signal.AccountID
	Session   signal.SessionID
}

// Login begins a session. ValidationError: a value is missing.
// KindUnauthorized, "invalid_credentials": email or password is wrong.
// KindTooMany, "account_locked": too many failed logins; the password was not
// looked at. It takes the same time whether the account exists or not.
func (s *Service) Login(ctx context.Context, email, password string) (Tokens, error) {
	var v ValidationError
	if email = NormalizeEmail(email); email == "" {
		v.add("email", "required", "email is required and must be that of the account")
	}
	if password == "" {
		v.add("password", "required", "password is required and must be that of the account")
	}
	if err := v.orNil(); err != nil {
		return Tokens{}, err
	}
	who := credential.DigestOf(email)
	if err := s.checkLock(ctx, who, ""); err != nil {
		return Tokens{}, err
	}
	account, stored, err := s.store.AccountByEmail(ctx, email)
	if err != nil && !is(err, signal.KindNotFound) {
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

// checkLock returns an error if logins with the email are refused now. account is that
// of the email, for the log, if it is known without asking.
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

// refuseLocked answers a login of an email that is locked for d.
func (s *Service) refuseLocked(ctx context.Context, account signal.AccountID, d time.Duration) error {
	s.metrics.refused(accountLocked)
	s.audit(ctx, slog.LevelInfo, "login refused: the email is locked", account)
	return locked(d)
}

// failLogin counts a wrong password and returns the error that answers it.
// Passwords that were compared at the same time count in the order in which they
// come here, so that those after the one that locks learn nothing.
func (s *Service) failLogin(ctx context.Context, email credential.Digest, account signal.AccountID) error {
	now := s.now()
	// A client that hangs up must not escape the count.
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

// rehash stores the password under the parameters of now. If it fails the old
// hash still serves.
func (s *Service) rehash(ctx context.Context, account signal.AccountID, password, old string) {
	hash, err := s.hashes.hash(ctx, password)
	if err == nil {
		err = s.store.Rehash(ctx, account, old, hash)
	}
	if err != nil {
		s.log.Warn("a password is not rehashed", "account", account, "err", err)
	}
}

// begin makes a session after a right password. Of too many sessions it ends those
// that were not refreshed for longest.
func (s *Service) begin(ctx context.Context, account signal.AccountID, passwordVersion int64,
	email credential.Digest) (Tokens, error) {
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
	if is(err, signal.KindConflict) {
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

// renew makes the next tokens of the session n and returns it as it is with them.
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

// Refresh uses a refresh token up and returns the next tokens of its session. It
// fails with KindUnauthorized, "invalid_refresh_token", if the token is unknown,
// expired, or revoked; also if it was used before, which ends the session.
func (s *Service) Refresh(ctx context.Context, token string) (Tokens, error) {
	if token == "" {
		return Tokens{}, ValidationError{{Field: "refresh_token", Code: "required",
			Detail: "refresh_token is required and must be the one of the last login or refresh"}}
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
	if is(err, signal.KindNotFound) {
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
	if is(err, signal.KindNotFound) {
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
// "jwt_required": p came with an API key.
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
	if err == nil || len(ended) > 0 { // in effect, also if replicas lack it
		s.audit(ctx, slog.LevelInfo, "logout", p.Account, sessionAttr(p.Session), slog.Bool("all", all))
	}
	s.announce(ctx, ended)
	return err
}
