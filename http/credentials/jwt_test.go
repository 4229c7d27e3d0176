package credentials

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func testIssuer(t testing.TB) *tokenIssuer {
	t.Helper()
	return newTokenIssuer(testKeys(), "issuer", "audience", func() time.Time { return testNow })
}

// goodClaims are those of a token that is valid at testNow.
func goodClaims() map[string]any {
	return map[string]any{"iss": "issuer", "aud": "audience", "sub": "acc_1", "sid": "ses_1", "jti": "1",
		"scope": "agents:read agents:run signals:read webhooks:manage",
		"iat":   testNow.Unix(), "nbf": testNow.Unix(), "exp": testNow.Unix() + 900}
}

// forge writes a token without a library, so that it can be invalid.
func forge(header, claims map[string]any, key []byte, h func() hash.Hash) string {
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := encode(header) + "." + encode(claims)
	mac := hmac.New(h, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// with returns m with changes; a nil value removes a member.
func with(m, changes map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range changes {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	return m
}

func TestVerifyAcceptsOwnTokens(t *testing.T) {
	t.Parallel()
	issuer := testIssuer(t)
	keys := testKeys()
	newKey, oldKey := keys[0].Value[:], keys[1].Value[:]
	type m = map[string]any
	for name, token := range map[string]string{
		"by the first key": forge(m{"alg": "HS256", "kid": "new", "typ": "JWT"}, goodClaims(), newKey, sha256.New),
		"by another key":   forge(m{"alg": "HS256", "kid": "old"}, goodClaims(), oldKey, sha256.New),
		"several audiences": forge(m{"alg": "HS256", "kid": "new"},
			with(goodClaims(), m{"aud": []string{"x", "audience"}}), newKey, sha256.New),
		"nbf and iat 30 s ahead": forge(m{"alg": "HS256", "kid": "new"},
			with(goodClaims(), m{"nbf": testNow.Unix() + 30, "iat": testNow.Unix() + 30}), newKey, sha256.New),
		"a second before the expiry": forge(m{"alg": "HS256", "kid": "new"},
			with(goodClaims(), m{"exp": testNow.Unix() + 1}), newKey, sha256.New),
	} {
		got, err := issuer.verify(token)
		if err != nil || got.Account != "acc_1" || got.Session != "ses_1" ||
			got.Scopes != signal.AllScopes {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	issued, err := issuer.issue("acc_1", "ses_1", testNow, testNow.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	got, err := issuer.verify(issued)
	want := signal.Principal{Account: "acc_1", Session: "ses_1", Scopes: signal.AllScopes,
		ExpiresAt: testNow.Add(time.Minute)}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("issued: %v (-want +got):\n%s", err, d)
	}
}

func TestVerifyRefusesForgedTokens(t *testing.T) {
	t.Parallel()
	issuer := testIssuer(t)
	keys := testKeys()
	key, oldKey := keys[0].Value[:], keys[1].Value[:]
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaToken := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims(goodClaims()))
	rsaToken.Header["kid"] = "new"
	signedRSA, err := rsaToken.SignedString(private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	type m = map[string]any
	header := m{"alg": "HS256", "kid": "new", "typ": "JWT"}
	good := forge(header, goodClaims(), key, sha256.New)
	if _, err := issuer.verify(good); err != nil {
		t.Fatalf("the token that the others are made of: %v", err)
	}
	parts := strings.Split(good, ".")
	signed := func(changes m) string { return forge(header, with(goodClaims(), changes), key, sha256.New) }
	headed := func(changes m) string { return forge(with(header, changes), goodClaims(), key, sha256.New) }
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"new","typ":"JWT"}`))
	now := testNow.Unix()
	for name, token := range map[string]string{
		"alg none":                       none + "." + parts[1] + ".",
		"alg none, with a signature":     none + "." + parts[1] + "." + parts[2],
		"alg None":                       headed(m{"alg": "None"}),
		"no alg":                         headed(m{"alg": nil}),
		"alg of another type":            headed(m{"alg": 256}),
		"alg hs256":                      headed(m{"alg": "hs256"}),
		"HS512 with our key":             forge(with(header, m{"alg": "HS512"}), goodClaims(), key, sha512.New),
		"HS384 named, HS256 used":        headed(m{"alg": "HS384"}),
		"RS256":                          signedRSA,
		"RS256 named, HMAC with our key": headed(m{"alg": "RS256"}),
		"HMAC with an RSA public key":    forge(header, goodClaims(), publicPEM, sha256.New),
		"an empty key":                   forge(header, goodClaims(), nil, sha256.New),
		"our key in base64 as text": forge(header, goodClaims(),
			[]byte("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="), sha256.New),
		"no kid":                              headed(m{"kid": nil}),
		"unknown kid":                         headed(m{"kid": "newer"}),
		"empty kid":                           headed(m{"kid": ""}),
		"kid of another type":                 headed(m{"kid": []string{"new"}}),
		"kid of another key":                  headed(m{"kid": "old"}),
		"signed by another key":               forge(header, goodClaims(), oldKey, sha256.New),
		"kid as a path":                       headed(m{"kid": "../../dev/null"}),
		"crit":                                headed(m{"crit": []string{"exp"}}),
		"a key in the header":                 headed(m{"jwk": m{"kty": "oct", "k": "AA"}}),
		"another issuer":                      signed(m{"iss": "someone"}),
		"no issuer":                           signed(m{"iss": nil}),
		"issuer of another type":              signed(m{"iss": 1}),
		"another audience":                    signed(m{"aud": "someone"}),
		"no audience":                         signed(m{"aud": nil}),
		"no audiences":                        signed(m{"aud": []string{}}),
		"expired now":                         signed(m{"exp": now}),
		"expired a second ago, within leeway": signed(m{"exp": now - 1}),
		"expired long ago":                    signed(m{"exp": 1}),
		"no expiry":                           signed(m{"exp": nil}),
		"expiry 0":                            signed(m{"exp": 0}),
		"valid in 31 s":                       signed(m{"nbf": now + 31}),
		"no nbf":                              signed(m{"nbf": nil}),
		"issued in 31 s":                      signed(m{"iat": now + 31}),
		"no iat":                              signed(m{"iat": nil}),
		"no account":                          signed(m{"sub": nil}),
		"no session":                          signed(m{"sid": nil}),
		"no jti":                              signed(m{"jti": nil}),
		"session of another type":             signed(m{"sid": 1}),
		"claims changed": parts[0] + "." +
			base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"acc_2"}`)) + "." + parts[2],
		"signature cut":          good[:len(good)-4],
		"no signature":           parts[0] + "." + parts[1] + ".",
		"two parts":              parts[0] + "." + parts[1],
		"four parts":             good + ".",
		"padding":                good + "=",
		"a space before":         " " + good,
		"a line end within":      good[:10] + "\n" + good[10:],
		"empty parts":            "..",
		"garbage":                "garbage",
		"garbage in three parts": "a.b.c",
		"binary":                 "\x00\xff.\x00.\x00",
		"null header": base64.RawURLEncoding.EncodeToString([]byte("null")) + "." + parts[1] +
			"." + parts[2],
		"claims that are not an object": parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte("[]")) +
			"." + parts[2],
		"10 KB":                                 strings.Repeat("a", 10_240),
		"10 KB of claims, signed by us":         signed(m{"more": strings.Repeat("a", 10_240)}),
		"10 KB of dots":                         strings.Repeat(".", 10_240),
		"unused bits of the signature not zero": lastDigitChanged(good),
	} {
		if got, err := issuer.verify(token); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		} else if got != (signal.Principal{}) {
			t.Errorf("%s: refused with a principal", name)
		}
	}
	for i := range len(good) { // any byte changed
		b := []byte(good)
		b[i] ^= 1
		if _, err := issuer.verify(string(b)); err == nil {
			t.Errorf("byte %d changed: accepted", i)
		}
	}
}

// lastDigitChanged sets a bit of the last base64 digit that carries no data: 32
// bytes leave two such bits.
func lastDigitChanged(token string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(digits, token[len(token)-1])
	return token[:len(token)-1] + digits[last|1:last|1+1]
}

func TestForgedTokensAreAllAnsweredAlike(t *testing.T) {
	t.Parallel()
	s := New(nil, nil, testKeys(), Options{})
	key := testKeys()[0].Value[:]
	expired := forge(map[string]any{"alg": "HS256", "kid": "new"}, goodClaims(), key, sha256.New)
	for _, token := range []string{"x", "ask_x", "ask_" + strings.Repeat("0", 46), "rt_x", "a.b.c", expired,
		strings.Repeat("y", 10_240)} {
		// the store is nil: it must not be asked
		if _, err := s.Authenticator.Authenticate(t.Context(), token); !errors.Is(err, errInvalidToken) {
			t.Errorf("%.20q: %v", token, err)
		}
	}
}

func TestWithoutKeysNoTokenIsIssuedOrAccepted(t *testing.T) {
	t.Parallel()
	issuer := newTokenIssuer(nil, "issuer", "audience", func() time.Time { return testNow })
	if token, err := issuer.issue("acc_1", "ses_1", testNow, testNow.Add(time.Minute)); err == nil {
		t.Errorf("issued %s", token)
	}
	if _, err := issuer.verify(forge(map[string]any{"alg": "HS256", "kid": ""}, goodClaims(), nil,
		sha256.New)); err == nil {
		t.Error("accepted")
	}
}

func FuzzVerify(f *testing.F) {
	issuer := testIssuer(f)
	// An issued token has a random jti.
	key := issuer.keys[0].Value[:]
	good := forge(map[string]any{"alg": "HS256", "kid": "new"}, goodClaims(), key, sha256.New)
	f.Add(good)
	f.Add("..")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	parts := strings.Split(good, ".")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := issuer.verify(token); err == nil && token != good {
			t.Errorf("accepted %q", token)
		}
		// The same bytes as claims under a right header must not crash the parser.
		encoded := base64.RawURLEncoding.EncodeToString([]byte(token))
		if _, err := issuer.verify(parts[0] + "." + encoded + "." + parts[2]); err == nil {
			t.Errorf("claims %q are accepted under another signature", token)
		}
	})
}
