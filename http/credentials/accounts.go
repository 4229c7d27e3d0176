package credentials

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// accountStore keeps accounts.
type accountStore interface {
	CreateAccount(ctx context.Context, a credential.Account, passwordHash string) error
	AccountByID(ctx context.Context, id signal.AccountID) (credential.Account, credential.Password, error)
	AccountByEmail(ctx context.Context, email string) (credential.Account, credential.Password, error)
	Accounts(ctx context.Context, limit, offset int) ([]credential.Account, int, error)
	DeleteAccount(ctx context.Context, id signal.AccountID, now time.Time) ([]signal.Event, error)
}

// passwordStore keeps the passwords of accounts.
type passwordStore interface {
	SetPassword(ctx context.Context, id signal.AccountID, hash string, version int64, keep signal.SessionID,
		now time.Time) ([]signal.Event, error)
	Rehash(ctx context.Context, id signal.AccountID, from, to string) error
}

// CreateAccount creates an account. ValidationError: the faults of "email" and "password".
// KindConflict, "email_taken".
func (s *Service) CreateAccount(ctx context.Context, email, password string) (credential.Account, error) {
	if err := CheckAccount(email, password).orNil(); err != nil {
		return credential.Account{}, err
	}
	email = NormalizeEmail(email)
	hash, err := s.hashes.hash(ctx, password)
	if err != nil {
		return credential.Account{}, err
	}
	now := s.now()
	a := credential.Account{ID: signal.NewAccountIDAt(now), Email: email, CreatedAt: now}
	if err := s.store.CreateAccount(ctx, a, hash); err != nil {
		return credential.Account{}, err
	}
	s.audit(ctx, slog.LevelInfo, "account created", a.ID)
	return a, nil
}

// Account returns an account. KindNotFound.
func (s *Service) Account(ctx context.Context, id signal.AccountID) (credential.Account, error) {
	a, _, err := s.store.AccountByID(ctx, id)
	return a, err
}

// AccountByEmail returns the account with an email. KindNotFound.
func (s *Service) AccountByEmail(ctx context.Context, email string) (credential.Account, error) {
	a, _, err := s.store.AccountByEmail(ctx, NormalizeEmail(email))
	return a, err
}

// Accounts returns at most limit accounts after the first offset ones, oldest first, and the
// number of all accounts.
func (s *Service) Accounts(ctx context.Context, limit, offset int) ([]credential.Account, int, error) {
	return s.store.Accounts(ctx, limit, offset)
}

// ChangePassword replaces the password of p's account and ends all its sessions except p's.
// ValidationError: the faults of "current_password" and "new_password". KindUnauthorized:
// "jwt_required", or "invalid_credentials" if the current password is wrong, which counts as
// a failed login. KindTooMany, "account_locked".
func (s *Service) ChangePassword(ctx context.Context, p signal.Principal, current, next string) error {
	if err := s.RequireJWT(p); err != nil {
		return err
	}
	account, stored, err := s.store.AccountByID(ctx, p.Account)
	if err != nil {
		return err
	}
	var v ValidationError
	v.require("current_password", current, CurrentPasswordRule)
	checkPassword(&v, "new_password", next, account.Email)
	if err := v.orNil(); err != nil {
		return err
	}
	// The lock also holds for those with a stolen access token.
	who := credential.DigestOf(account.Email)
	if err := s.checkLock(ctx, who, account.ID); err != nil {
		return err
	}
	right, _, err := s.hashes.compare(ctx, current, stored.Hash)
	if err != nil {
		return err
	}
	if !right {
		return s.failLogin(ctx, who, account.ID)
	}
	hash, err := s.hashes.hash(ctx, next)
	if err != nil {
		return err
	}
	if err := s.checkLock(ctx, who, account.ID); err != nil {
		return err
	}
	ended, err := s.store.SetPassword(ctx, account.ID, hash, stored.Version, p.Session, s.now())
	if signal.KindOf(err) == signal.KindConflict {
		return s.failLogin(ctx, who, account.ID) // another request changed it meanwhile
	}
	if inEffect(ended, err) {
		s.audit(ctx, slog.LevelInfo, "password changed", account.ID, sessionAttr(p.Session),
			slog.Int("ended", len(ended)))
	}
	s.announce(ctx, ended)
	return err
}

// inEffect reports whether a change of the store is in effect: with an error, it is if the
// store has returned its events and only replicas lack it.
func inEffect(events []signal.Event, err error) bool { return err == nil || len(events) > 0 }

// SetPassword replaces the password of an account for an operator and ends all sessions of
// the account. ValidationError: the faults of "password". KindNotFound.
func (s *Service) SetPassword(ctx context.Context, id signal.AccountID, password string) error {
	account, _, err := s.store.AccountByID(ctx, id)
	if err != nil {
		return err
	}
	var v ValidationError
	checkPassword(&v, "password", password, account.Email)
	if err := v.orNil(); err != nil {
		return err
	}
	hash, err := s.hashes.hash(ctx, password)
	if err != nil {
		return err
	}
	const anyVersion = 0
	ended, err := s.store.SetPassword(ctx, id, hash, anyVersion, "", s.now())
	if inEffect(ended, err) {
		s.audit(ctx, slog.LevelInfo, "password changed", id, slog.Int("ended", len(ended)))
	}
	s.announce(ctx, ended)
	return err
}

// Unlock clears the lock and the failed logins of an email, also of one without an account.
func (s *Service) Unlock(ctx context.Context, email string) error {
	return s.store.Unlock(ctx, credential.DigestOf(NormalizeEmail(email)))
}

// DeleteAccount deletes an account with its keys and sessions and frees its email. The event
// that it announces makes every process delete the rest. KindNotFound.
func (s *Service) DeleteAccount(ctx context.Context, id signal.AccountID) error {
	events, err := s.store.DeleteAccount(ctx, id, s.now())
	if inEffect(events, err) {
		s.audit(ctx, slog.LevelInfo, "account deleted", id)
	}
	s.announce(ctx, events)
	return err
}
