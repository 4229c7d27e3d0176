package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const (
	keyPrefix      = "ask_"
	keyRandom      = 40 // characters: 238 bits
	keyCheck       = 6  // characters of CRC-32 over the random ones
	keyLength      = len(keyPrefix) + keyRandom + keyCheck
	keyShown       = 8 // characters of a key in lists
	refreshPrefix  = "rt_"
	refreshRandom  = 43 // characters: 256 bits
	refreshLength  = len(refreshPrefix) + refreshRandom
	refreshLocator = len(refreshPrefix) + 21 // prefix of all tokens of a session: 125 random bits
)

// appendRandom adds n random base-62 characters to b.
func appendRandom(b []byte, n int) []byte {
	// A byte below the greatest multiple of 62 gives each digit the same chance.
	const limit = 256 - 256%len(base62)
	var buffer [64]byte
	for n > 0 {
		rand.Read(buffer[:]) // never fails
		for _, r := range buffer {
			if n > 0 && int(r) < limit {
				b = append(b, base62[int(r)%len(base62)])
				n--
			}
		}
	}
	return b
}

// newKeySecret returns the secret of a new API key.
func newKeySecret() string {
	b := appendRandom([]byte(keyPrefix), keyRandom)
	check := keyChecksum(string(b[len(keyPrefix):]))
	return string(append(b, check[:]...))
}

// keyChecksum returns the last characters of a key with the given random ones.
func keyChecksum(random string) [keyCheck]byte {
	// Like crc32.ChecksumIEEE, but without allocating for a string.
	sum := ^uint32(0)
	for i := range len(random) {
		sum = crc32.IEEETable[byte(sum)^random[i]] ^ sum>>8
	}
	sum = ^sum
	var out [keyCheck]byte
	for i := keyCheck - 1; i >= 0; i-- {
		out[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return out
}

// isKeySecret reports whether s has the form of an API key and the right checksum, so that
// it is worth a lookup in the store.
func isKeySecret(s string) bool {
	if len(s) != keyLength || !strings.HasPrefix(s, keyPrefix) || !isBase62(s[len(keyPrefix):]) {
		return false
	}
	check := keyChecksum(s[len(keyPrefix) : len(keyPrefix)+keyRandom])
	return s[len(s)-keyCheck:] == string(check[:])
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// The first 21 random characters of a refresh token, its locator, are the same for the whole
// session; the other 22 (131 bits) are new for each token. So a used token still finds its
// session and ends it, while the store keeps one entry for each session and not one for each
// token of the last 30 days.

// newRefreshToken returns the next token with the locator, or the first one of a session if
// it is empty.
func newRefreshToken(locator string) string {
	b := append(make([]byte, 0, refreshLength), locator...)
	if len(b) == 0 {
		b = append(b, refreshPrefix...)
	}
	return string(appendRandom(b, refreshLength-len(b)))
}

// parseRefreshToken returns the locator of token, and whether token has the form of a
// refresh token.
func parseRefreshToken(token string) (locator string, ok bool) {
	random, ok := strings.CutPrefix(token, refreshPrefix)
	if !ok || len(random) != refreshRandom || !isBase62(random) {
		return "", false
	}
	return token[:refreshLocator], true
}

// digest is credential.DigestOf without allocating for usual tokens.
func digest(s string) credential.Digest {
	var b [1024]byte
	if len(s) > len(b) {
		return credential.DigestOf(s)
	}
	return sha256.Sum256(b[:copy(b[:], s)])
}
