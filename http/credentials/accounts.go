package credentials

import (
	"context"
	"log/slog"
	"slices"
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

// Accounts keeps accounts and their passwords.
type Accounts struct {
	store interface {
		accountStore
		passwordStore
	}
	hashes    *hasher
	locks     *Locks
	announcer *announcer
	audit     auditLog
	now       func() time.Time
}

// CreateAccount creates an account. ValidationError: the faults of "email" and "password".
// KindConflict, "email_taken".
func (a *Accounts) CreateAccount(ctx context.Context, email, password string) (credential.Account, error) {
	if err := CheckAccount(email, password).orNil(); err != nil {
		return credential.Account{}, err
	}
	email = NormalizeEmail(email)
	hash, err := a.hashes.hash(ctx, password)
	if err != nil {
		return credential.Account{}, err
	}
	now := a.now()
	account := credential.Account{ID: signal.NewAccountIDAt(now), Email: email, CreatedAt: now}
	if err := a.store.CreateAccount(ctx, account, hash); err != nil {
		return credential.Account{}, err
	}
	a.audit.write(ctx, slog.LevelInfo, "account created", account.ID)
	return account, nil
}

// Account returns an account. KindNotFound.
func (a *Accounts) Account(ctx context.Context, id signal.AccountID) (credential.Account, error) {
	account, _, err := a.store.AccountByID(ctx, id)
	return account, err
}

// AccountByEmail returns the account with an email. KindNotFound.
func (a *Accounts) AccountByEmail(ctx context.Context, email string) (credential.Account, error) {
	account, _, err := a.store.AccountByEmail(ctx, NormalizeEmail(email))
	return account, err
}

// List returns at most limit accounts after the first offset ones, oldest first, and the
// number of all accounts.
func (a *Accounts) List(ctx context.Context, limit, offset int) ([]credential.Account, int, error) {
	return a.store.Accounts(ctx, limit, offset)
}

// ChangePassword replaces the password of p's account and ends all its sessions except p'a.
// ValidationError: the faults of "current_password" and "new_password". KindUnauthorized:
// "jwt_required", or "invalid_credentials" if the current password is wrong, which counts as
// a failed login. KindTooMany, "account_locked".
func (a *Accounts) ChangePassword(ctx context.Context, p signal.Principal, current, next string) error {
	if err := requireJWT(p, a.locks.metrics); err != nil {
		return err
	}
	account, stored, err := a.store.AccountByID(ctx, p.Account)
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
	if err := a.locks.check(ctx, who, account.ID); err != nil {
		return err
	}
	right, _, err := a.hashes.compare(ctx, current, stored.Hash)
	if err != nil {
		return err
	}
	if !right {
		return a.locks.fail(ctx, who, account.ID)
	}
	hash, err := a.hashes.hash(ctx, next)
	if err != nil {
		return err
	}
	if err := a.locks.check(ctx, who, account.ID); err != nil {
		return err
	}
	ended, err := a.store.SetPassword(ctx, account.ID, hash, stored.Version, p.Session, a.now())
	if signal.KindOf(err) == signal.KindConflict {
		return a.locks.fail(ctx, who, account.ID) // another request changed it meanwhile
	}
	if inEffect(ended, err) {
		a.audit.write(ctx, slog.LevelInfo, "password changed", account.ID, sessionAttr(p.Session),
			slog.Int("ended", len(ended)))
	}
	a.announcer.announce(ctx, ended)
	return err
}

// inEffect reports whether a change of the store is in effect: with an error, it is if the
// store has returned its events and only replicas lack it.
func inEffect(events []signal.Event, err error) bool { return err == nil || len(events) > 0 }

// SetPassword replaces the password of an account for an operator and ends all sessions of
// the account. ValidationError: the faults of "password". KindNotFound.
func (a *Accounts) SetPassword(ctx context.Context, id signal.AccountID, password string) error {
	account, _, err := a.store.AccountByID(ctx, id)
	if err != nil {
		return err
	}
	var v ValidationError
	checkPassword(&v, "password", password, account.Email)
	if err := v.orNil(); err != nil {
		return err
	}
	hash, err := a.hashes.hash(ctx, password)
	if err != nil {
		return err
	}
	const anyVersion = 0
	ended, err := a.store.SetPassword(ctx, id, hash, anyVersion, "", a.now())
	if inEffect(ended, err) {
		a.audit.write(ctx, slog.LevelInfo, "password changed", id, slog.Int("ended", len(ended)))
	}
	a.announcer.announce(ctx, ended)
	return err
}

// DeleteAccount deletes an account with its keys and sessions and frees its email. The event
// that it announces makes every process delete the rest. KindNotFound.
func (a *Accounts) DeleteAccount(ctx context.Context, id signal.AccountID) error {
	events, err := a.store.DeleteAccount(ctx, id, a.now())
	// With an error, only sessions or readers may have ended.
	if slices.ContainsFunc(events, func(e signal.Event) bool { return e.Type == signal.AccountDeleted }) {
		a.audit.write(ctx, slog.LevelInfo, "account deleted", id)
	}
	a.announcer.announce(ctx, events)
	return err
}
