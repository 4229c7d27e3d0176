package http

import (
	"context"
	"net/http"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Authenticator authenticates callers. Its errors are *signal.Error. See credentials.Authenticator.
type Authenticator interface {
	// Authenticate returns the principal of a token; an empty token is a missing one.
	Authenticate(ctx context.Context, token string) (signal.Principal, error)
	// RequireJWT refuses a principal that was authenticated by an API key.
	RequireJWT(p signal.Principal) error
}

// malformedToken stands for an Authorization header without a bearer token. No credential
// has this form, so it is refused and counted as an unknown one.
const malformedToken = "malformed"

// bearerToken returns the token of an Authorization header, or "" without such a header.
func bearerToken(h http.Header) string {
	values := h["Authorization"]
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if len(values) > 1 || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return malformedToken
	}
	return token
}

// errMalformed describes the form of an Authorization header. It does not repeat the token.
var errMalformed = &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token",
	Message: "The Authorization header must be the word Bearer, a space and the token."}

// authenticator sets the principals of calls.
type authenticator struct{ credentials Authenticator }

// authenticate sets the principal of the call if its operation requires one.
func (a authenticator) authenticate(c *call) error {
	switch c.operation.guard {
	case public:
		return nil
	case handshake:
		return c.operation.authenticate(c)
	case inPath:
		if err := c.operation.authenticate(c); err != nil {
			return err
		}
		accepted(c.r.Context())
		return nil
	case anyToken, jwtOnly:
	}
	if err := a.identify(c, bearerToken(c.r.Header)); err != nil {
		return err
	}
	accepted(c.r.Context())
	if c.operation.guard == jwtOnly {
		return a.credentials.RequireJWT(c.principal)
	}
	return nil
}

// identify sets the principal of the call to that of the token.
func (a authenticator) identify(c *call, token string) (err error) {
	c.principal, err = a.credentials.Authenticate(c.r.Context(), token)
	if err != nil && token == malformedToken {
		return errMalformed
	}
	return err
}

// errReader refuses readers what is not of signals.
var errReader = &signal.Error{Kind: signal.KindForbidden, Code: "reader_key",
	Message: "the API key has a view, so it reads the signals of its view and nothing else of the account"}
