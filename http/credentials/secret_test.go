package credentials

import (
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func TestKeySecrets(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ask_[0-9A-Za-z]{46}$`)
	seen := map[string]bool{}
	for range 1000 {
		s := newKeySecret()
		if !form.MatchString(s) || !credential.IsKey(s) || seen[s] {
			t.Fatalf("secret %q", s)
		}
		seen[s] = true
	}
	// The CRC-32 (IEEE) of forty zeros, as other tools compute it.
	const crcOfFortyZeros = 2520759182
	sum := credential.KeyChecksum(strings.Repeat("0", 40))
	n := 0
	for _, c := range sum {
		n = n*62 + strings.IndexByte(credential.Base62, c)
	}
	if n != crcOfFortyZeros {
		t.Errorf("checksum %q is %d, want %d", sum, n, crcOfFortyZeros)
	}
}

func TestTypingErrorsInKeysAreFound(t *testing.T) {
	t.Parallel()
	s := newKeySecret()
	for i := range len(s) {
		for _, c := range []byte("0Zz-é ") {
			if s[i] == c {
				continue
			}
			if changed := s[:i] + string(c) + s[i+1:]; credential.IsKey(changed) {
				t.Errorf("%q passes for %q", changed, s)
			}
		}
		if i > 4 && s[i] != s[i-1] {
			if swapped := s[:i-1] + s[i:i+1] + s[i-1:i] + s[i+1:]; credential.IsKey(swapped) {
				t.Errorf("%q passes for %q", swapped, s)
			}
		}
	}
	for _, bad := range []string{"", "ask_", s[:49], s + "0", " " + s[1:], "ASK_" + s[4:], s[4:]} {
		if credential.IsKey(bad) {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestRefreshTokens(t *testing.T) {
	t.Parallel()
	first, other := newRefreshToken(""), newRefreshToken("")
	locator, ok := parseRefreshToken(first)
	if !ok || !strings.HasPrefix(first, locator) || first == other || strings.HasPrefix(other, locator) {
		t.Errorf("%q and %q", first, other)
	}
	next := newRefreshToken(locator)
	if again, ok := parseRefreshToken(next); !ok || again != locator || next == first {
		t.Errorf("%q after %q", next, first)
	}
}

func TestRandomDigitsAreEven(t *testing.T) {
	t.Parallel()
	const n = 62 * 2000
	counts := map[byte]int{}
	for _, c := range appendRandom(nil, n) {
		counts[c]++
	}
	if len(counts) != 62 {
		t.Errorf("%d digits", len(counts))
	}
	for c, got := range counts {
		if got < 1600 || got > 2400 { // nine standard deviations
			t.Errorf("digit %c comes %d times of %d", c, got, n)
		}
	}
}

func TestDigestIsTheSameWithoutAllocating(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 50, 1023, 1024, 1025, 5000} {
		if s := strings.Repeat("x", n); digest(s) != credential.DigestOf(s) {
			t.Errorf("digests of %d bytes differ", n)
		}
	}
}

func FuzzSecrets(f *testing.F) {
	f.Add(newKeySecret())
	f.Add(newRefreshToken(""))
	f.Add("ask_")
	form := regexp.MustCompile(`^ask_[0-9A-Za-z]{46}$`)
	f.Fuzz(func(t *testing.T, s string) {
		if credential.IsKey(s) && !form.MatchString(s) {
			t.Errorf("%q passes for a key", s)
		}
		if locator, ok := parseRefreshToken(s); ok && (len(s) != refreshLength || len(locator) != refreshLocator) {
			t.Errorf("%q passes for a refresh token", s)
		}
		isCommon(s)
		var v ValidationError
		if email := checkEmail(&v, "email", s); len(v) == 0 &&
			(email == "" || !strings.Contains(email, "@") || NormalizeEmail(email) != email) {
			t.Errorf("%q passes for an email as %q", s, email)
		}
	})
}
