package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// The digits of base 62, in the order of their values.
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const (
	keyPrefix      = "ask_"
	keyRandom      = 40 // characters: 238 bits
	keyCheck       = 6  // characters of CRC-32 over the random ones
	keyLength      = len(keyPrefix) + keyRandom + keyCheck
	keyShown       = 8 // characters of a key that lists show
	refreshPrefix  = "rt_"
	refreshRandom  = 43 // characters: 256 bits
	refreshLength  = len(refreshPrefix) + refreshRandom
	refreshLocator = len(refreshPrefix) + 21 // what all tokens of a session begin with: 125 random bits
)

// appendRandom adds n random base-62 characters to b.
func appendRandom(b []byte, n int) []byte {
	// A byte below the greatest multiple of 62 gives each digit the same chance.
	const limit = 256 - 256%len(base62)
	var buffer [64]byte
	for n > 0 {
		rand.Read(buffer[:]) // never fails: the process would end
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
	// As crc32.ChecksumIEEE, which would need the bytes on the heap.
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

// isKeySecret reports whether s has the form of an API key and its checksum is right,
// so that asking the store is worth it.
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

// A refresh token's first 21 random characters, its locator, are the same for the
// whole session; the other 22 (131 bits) are new for each token. So a token that
// was used up still finds its session, which it ends, while the store keeps one
// entry a session and not one for each token of the last 30 days.

// newRefreshToken returns the next token after one that begins with locator, or
// the first one of a session if it is empty.
func newRefreshToken(locator string) string {
	b := append(make([]byte, 0, refreshLength), locator...)
	if len(b) == 0 {
		b = append(b, refreshPrefix...)
	}
	return string(appendRandom(b, refreshLength-len(b)))
}

// parseRefreshToken returns what token has in common with all of its session, or
// false if token has not the form of a refresh token.
func parseRefreshToken(token string) (locator string, ok bool) {
	if len(token) != refreshLength || !strings.HasPrefix(token, refreshPrefix) || !isBase62(token[len(refreshPrefix):]) {
		return "", false
	}
	return token[:refreshLocator], true
}

// digest is signal.DigestOf without allocating for usual tokens.
func digest(s string) credential.Digest {
	var b [1024]byte
	if len(s) > len(b) {
		return credential.DigestOf(s)
	}
	return sha256.Sum256(b[:copy(b[:], s)])
}
