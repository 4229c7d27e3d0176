package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

const (
	keyShown       = 8 // characters of a key in lists
	refreshPrefix  = "rt_"
	refreshRandom  = 43 // characters: 256 bits
	refreshLength  = len(refreshPrefix) + refreshRandom
	refreshLocator = len(refreshPrefix) + 21 // prefix of all tokens of a session: 125 random bits
)

// appendRandom adds n random base-62 characters to b.
func appendRandom(b []byte, n int) []byte {
	// A byte below the greatest multiple of 62 gives each digit the same chance.
	const limit = 256 - 256%len(credential.Base62)
	var buffer [64]byte
	for n > 0 {
		rand.Read(buffer[:]) // never fails
		for _, r := range buffer {
			if n > 0 && int(r) < limit {
				b = append(b, credential.Base62[int(r)%len(credential.Base62)])
				n--
			}
		}
	}
	return b
}

// newKeySecret returns the secret of a new API key.
func newKeySecret() string {
	b := appendRandom([]byte(credential.KeyPrefix), credential.KeyRandom)
	check := credential.KeyChecksum(string(b[len(credential.KeyPrefix):]))
	return string(append(b, check[:]...))
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
	if !ok || len(random) != refreshRandom || !credential.IsBase62(random) {
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
