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

// passwordStore keeps their passwords.
type passwordStore interface {
	SetPassword(ctx context.Context, id signal.AccountID, hash string, version int64, keep signal.SessionID,
		now time.Time) ([]signal.Event, error)
	Rehash(ctx context.Context, id signal.AccountID, from, to string) error
}

// CreateAccount registers an email with a password. ValidationError: the faults
// of "email" and "password". KindConflict, "email_taken".
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

// Accounts returns at most limit accounts after the first offset ones, oldest
// first, and how many there are.
func (s *Service) Accounts(ctx context.Context, limit, offset int) ([]credential.Account, int, error) {
	return s.store.Accounts(ctx, limit, offset)
}

// ChangePassword replaces the password of p's account and ends all its sessions
// but p's. ValidationError: the faults of "current_password" and "new_password".
// KindUnauthorized: "invalid_credentials", the current password is wrong, which
// counts like a failed login; "jwt_required". KindTooMany, "account_locked".
func (s *Service) ChangePassword(ctx context.Context, p signal.Principal, current, next string) error {
	if err := s.RequireJWT(p); err != nil {
		return err
	}
	account, stored, err := s.store.AccountByID(ctx, p.Account)
	if err != nil {
		return err
	}
	var v ValidationError
	if current == "" {
		v.add("current_password", "required", "current_password is required and must be the one in force")
	}
	checkPassword(&v, "new_password", next, account.Email)
	if err := v.orNil(); err != nil {
		return err
	}
	// A stolen access token must not open a way round the lock.
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
	if is(err, signal.KindConflict) {
		return s.failLogin(ctx, who, account.ID) // another request changed it meanwhile
	}
	if err == nil || len(ended) > 0 { // in effect, also if replicas lack it
		s.audit(ctx, slog.LevelInfo, "password changed", account.ID, sessionAttr(p.Session), slog.Int("ended", len(ended)))
	}
	s.announce(ctx, ended)
	return err
}

// SetPassword replaces the password of an account, for its administrator, and
// ends all its sessions. ValidationError: the faults of "password". KindNotFound.
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
	if err == nil || len(ended) > 0 { // in effect, also if replicas lack it
		s.audit(ctx, slog.LevelInfo, "password changed", id, slog.Int("ended", len(ended)))
	}
	s.announce(ctx, ended)
	return err
}

// Unlock forgets the locks and failed logins of an email, whether an account has
// it or not.
func (s *Service) Unlock(ctx context.Context, email string) error {
	return s.store.Unlock(ctx, credential.DigestOf(NormalizeEmail(email)))
}

// DeleteAccount ends an account with its keys and sessions and frees its email;
// the event it announces makes every process drop the rest. KindNotFound.
func (s *Service) DeleteAccount(ctx context.Context, id signal.AccountID) error {
	events, err := s.store.DeleteAccount(ctx, id, s.now())
	if err == nil || len(events) > 0 { // in effect, also if replicas lack it
		s.audit(ctx, slog.LevelInfo, "account deleted", id)
	}
	s.announce(ctx, events)
	return err
}
