// Package credential holds the records of accounts, sessions and API keys that the API and
// the store exchange, which contain digests of secrets only, and the form of the keys with
// which an installation signs and encrypts, which are not stored.
package credential

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Digest is the SHA-256 of a secret, or of a value that must not appear in the name of a
// Redis key. A secret itself is not stored.
type Digest [32]byte

// DigestOf returns the digest of s.
func DigestOf(s string) Digest { return sha256.Sum256([]byte(s)) }

// String returns d in lower-case hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// NamedKey is a key that signs access tokens or encrypts secrets at rest. It does not print
// its value.
type NamedKey struct {
	Name  string // 1 to 64 of the characters A-Z a-z 0-9 . _ -
	Value [32]byte
}

// String returns the name without the value.
func (k NamedKey) String() string { return k.Name + ":***" }

// GoString hides the value from %#v.
func (k NamedKey) GoString() string { return k.String() }

// Password is the stored form of an account's password.
type Password struct {
	Hash string // argon2id in the PHC form
	// Version counts the passwords of the account from 1. Hashing the same password again
	// keeps it.
	Version int64
}

// Session is a login. Its refresh token changes with each use; the Locator, a part of the
// token, does not, so that a used token still leads to its session.
type Session struct {
	ID           signal.SessionID
	Account      signal.AccountID
	CreatedAt    time.Time
	EndsAt       time.Time // at the latest, however often it is refreshed
	RefreshUntil time.Time // expiry of the current refresh token
	KeepUntil    time.Time // no credential of the session can be valid after it
	Locator      Digest
	Refresh      Digest // of the current refresh token
}

// LockRules determine when failed logins lock an email.
type LockRules struct {
	After    int           // number of failures
	Window   time.Duration // in which they are counted
	Duration time.Duration // of a lock: twice as long for the second within 24 hours, four times for further ones
}

// Account owns signals, keys, webhooks and jobs.
type Account struct {
	ID        signal.AccountID
	Email     string // trimmed, lower case
	CreatedAt time.Time
}

// APIKey is a key of an account, without its secret.
type APIKey struct {
	ID         signal.KeyID
	Account    signal.AccountID
	Name       string
	Prefix     string // the secret's first 8 characters
	Scopes     signal.ScopeSet
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero if never
	LastUsedAt time.Time // minute precision; zero if never
	// View is what a reader sees; nil for other keys. MaxConnections is how many streams a reader may have at once.
	View           *signal.View
	MaxConnections int
}

// Base62 has the characters of secrets.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// The parts of an API key, in their order.
const (
	KeyPrefix = "ask_"
	KeyRandom = 40 // characters: 238 bits
	keyCheck  = 6  // characters of CRC-32 over the random ones
	keyLength = len(KeyPrefix) + KeyRandom + keyCheck
)

// KeyChecksum returns the last characters of a key with the given random ones.
func KeyChecksum(random string) [keyCheck]byte {
	// Like crc32.ChecksumIEEE, but without allocating for a string.
	sum := ^uint32(0)
	for i := range len(random) {
		sum = crc32.IEEETable[byte(sum)^random[i]] ^ sum>>8
	}
	sum = ^sum
	var out [keyCheck]byte
	for i := keyCheck - 1; i >= 0; i-- {
		out[i] = Base62[sum%uint32(len(Base62))]
		sum /= uint32(len(Base62))
	}
	return out
}

// IsKey reports whether s has the form of an API key and the right checksum. Another text that begins with
// KeyPrefix is a key with a typing error, or a part of one.
func IsKey(s string) bool {
	if len(s) != keyLength || !strings.HasPrefix(s, KeyPrefix) || !IsBase62(s[len(KeyPrefix):]) {
		return false
	}
	check := KeyChecksum(s[len(KeyPrefix) : len(KeyPrefix)+KeyRandom])
	return s[len(s)-keyCheck:] == string(check[:])
}

// IsBase62 reports whether s has only characters of Base62.
func IsBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// Publication is how an account shows its record to everyone, under /r/ and the slug. The zero value is that of an account
// that never did.
type Publication struct {
	Account  signal.AccountID
	Slug     string
	Title    string // for people
	Enabled  bool
	ShowOpen bool // open signals at once, and not only when they close
}

// IsSlug reports whether a public record may have the slug: 3 to 40 lower-case letters, digits and hyphens, of which the
// first is a letter.
func IsSlug(s string) bool {
	if len(s) < 3 || len(s) > 40 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
