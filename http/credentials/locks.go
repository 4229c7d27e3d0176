package credentials

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// lockStore counts failed logins by the digest of the email.
type lockStore interface {
	LockedUntil(ctx context.Context, email credential.Digest) (time.Time, error)
	FailLogin(ctx context.Context, email credential.Digest, r credential.LockRules,
		now time.Time) (until time.Time, locked bool, err error)
	Unlock(ctx context.Context, email credential.Digest) error
}

// Locks locks emails after failed logins.
type Locks struct {
	store   lockStore
	rules   credential.LockRules
	audit   auditLog
	metrics *Metrics
	now     func() time.Time
}

// check returns an error if the email is locked. account is for the log and may be
// empty.
func (l *Locks) check(ctx context.Context, email credential.Digest, account signal.AccountID) error {
	until, err := l.store.LockedUntil(ctx, email)
	if err != nil {
		return err
	}
	if d := until.Sub(l.now()); d > 0 {
		return l.refuse(ctx, account, d)
	}
	return nil
}

// refuse counts and logs a login with an email that is locked for d, and returns its
// error.
func (l *Locks) refuse(ctx context.Context, account signal.AccountID, d time.Duration) error {
	l.metrics.refused(accountLocked)
	l.audit.write(ctx, slog.LevelInfo, "login refused: the email is locked", account)
	return locked(d)
}

// fail counts a wrong password and returns the error of the login. Passwords that were
// compared concurrently count in the order of these calls: all after the one that locks the
// email get the error of a locked one.
func (l *Locks) fail(ctx context.Context, email credential.Digest, account signal.AccountID) error {
	now := l.now()
	// The login counts even if the client leaves.
	until, justLocked, err := l.store.FailLogin(context.WithoutCancel(ctx), email, l.rules, now)
	if err != nil {
		return err
	}
	if justLocked {
		l.metrics.locked()
		l.audit.write(ctx, slog.LevelWarn, "email locked after failed logins", account, slog.Time("until", until))
	} else if d := until.Sub(now); d > 0 {
		return l.refuse(ctx, account, d)
	} else {
		l.audit.write(ctx, slog.LevelInfo, "login failed", account)
	}
	l.metrics.refused(wrongPassword)
	return errInvalidCredentials
}

// Unlock clears the lock and the failed logins of an email, also of one without an account.
func (l *Locks) Unlock(ctx context.Context, email string) error {
	return l.store.Unlock(ctx, credential.DigestOf(NormalizeEmail(email)))
}
