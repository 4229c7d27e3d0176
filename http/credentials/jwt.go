package credentials

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

const (
	// leeway is granted to nbf and iat, for clocks that differ, but not to exp.
	leeway = 30 * time.Second
	// maxToken limits the work for a forged token, in bytes. Valid ones have about 500.
	maxToken = 4096
)

var (
	errExpired  = errors.New("access token expired")
	errNoKey    = errors.New("no JWT key")
	errBadToken = errors.New("access token is not ours")
)

// claims are those of an access token.
type claims struct {
	jwt.RegisteredClaims
	Session string `json:"sid"`
	Scope   string `json:"scope"`
}

// tokenIssuer makes and checks access tokens.
type tokenIssuer struct {
	keys             []credential.NamedKey // the first signs, all verify
	issuer, audience string
	now              func() time.Time
	parser           *jwt.Parser
}

func newTokenIssuer(keys []credential.NamedKey, issuer, audience string, now func() time.Time) *tokenIssuer {
	return &tokenIssuer{keys: keys, issuer: issuer, audience: audience, now: now,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithIssuer(issuer), jwt.WithAudience(audience),
			jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(), jwt.WithIssuedAt(),
			// The library grants the leeway to exp too; verify checks exp again without.
			jwt.WithLeeway(leeway), jwt.WithTimeFunc(now), jwt.WithStrictDecoding())}
}

// issue returns a token of the session that is valid until expires, in whole seconds.
func (t *tokenIssuer) issue(
	account signal.AccountID, session signal.SessionID, now, expires time.Time,
) (string, error) {
	if len(t.keys) == 0 {
		return "", errNoKey
	}
	scopes := make([]string, len(signal.Scopes))
	for i, s := range signal.Scopes {
		scopes[i] = string(s)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    t.issuer,
			Subject:   string(account),
			Audience:  jwt.ClaimStrings{t.audience},
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(expires),
			ID:        string(appendRandom(nil, 22)),
		},
		Session: string(session), Scope: strings.Join(scopes, " "),
	})
	key := t.keys[0]
	token.Header["kid"] = key.Name
	return token.SignedString(key.Value[:])
}

// verify checks all of token except its session, and returns its principal. It returns
// errExpired if the token is valid otherwise.
func (t *tokenIssuer) verify(token string) (signal.Principal, error) {
	if len(token) > maxToken {
		return signal.Principal{}, errBadToken
	}
	var c claims
	parsed, err := t.parser.ParseWithClaims(token, &c, t.key)
	if err != nil {
		if errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenInvalidIssuer) &&
			!errors.Is(err, jwt.ErrTokenInvalidAudience) {
			return signal.Principal{}, errExpired
		}
		return signal.Principal{}, errors.Join(errBadToken, err)
	}
	// Headers such as crit require extensions, and none is supported.
	for name := range parsed.Header {
		if name != "alg" && name != "kid" && name != "typ" {
			return signal.Principal{}, errBadToken
		}
	}
	if c.Subject == "" || c.Session == "" || c.ID == "" || c.IssuedAt == nil {
		return signal.Principal{}, errBadToken
	}
	if !t.now().Before(c.ExpiresAt.Time) {
		return signal.Principal{}, errExpired
	}
	var scopes signal.ScopeSet
	for s := range strings.FieldsSeq(c.Scope) {
		scopes |= signal.ScopesOf(signal.Scope(s))
	}
	return signal.Principal{Account: signal.AccountID(c.Subject), Session: signal.SessionID(c.Session),
		Scopes: scopes, ExpiresAt: c.ExpiresAt.UTC()}, nil
}

// key returns the key that the token's header names.
func (t *tokenIssuer) key(token *jwt.Token) (any, error) {
	name, ok := token.Header["kid"].(string)
	i := slices.IndexFunc(t.keys, func(k credential.NamedKey) bool { return k.Name == name })
	if !ok || i < 0 {
		return nil, errNoKey
	}
	return t.keys[i].Value[:], nil
}
