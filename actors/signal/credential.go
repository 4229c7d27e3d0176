package signal

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Digest is the SHA-256 of a secret, or of something that shall not stand in a
// key's name. It is all that is stored of a secret.
type Digest [32]byte

// DigestOf returns the digest of s.
func DigestOf(s string) Digest { return sha256.Sum256([]byte(s)) }

// String returns d in lower-case hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Password is what is stored of an account's password.
type Password struct {
	Hash string // argon2id in the PHC form
	// Version counts the passwords of the account from 1. The same password under
	// another hash keeps its version.
	Version int64
}

// Session is a login. Its refresh token changes with each use; the Locator, a
// part of the token, stays, so that a used token still finds its session.
type Session struct {
	ID           SessionID
	Account      AccountID
	CreatedAt    time.Time
	EndsAt       time.Time // its end, however often it is refreshed
	RefreshUntil time.Time // expiry of the current refresh token
	KeepUntil    time.Time // no credential of the session can be valid after it
	Locator      Digest
	Refresh      Digest // of the current refresh token
}

// LockRules say when failed logins lock an email.
type LockRules struct {
	After    int           // so many failures
	Window   time.Duration // within this time
	Duration time.Duration // lock for this long: the second lock within 24 hours twice, further ones four times
}

// Account is who owns signals, keys, webhooks and jobs.
type Account struct {
	ID        AccountID
	Email     string // trimmed, lower case
	CreatedAt time.Time
}

// APIKey is a credential of an account. The secret itself is stored nowhere.
type APIKey struct {
	ID         KeyID
	Account    AccountID
	Name       string
	Prefix     string // the secret's first 8 characters
	Scopes     ScopeSet
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // minute precision; zero: never
}
