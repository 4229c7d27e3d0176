package http

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/request"
)

// Credentials authenticates callers and keeps accounts, sessions and API keys. Its errors
// are *signal.Error, or credentials.ValidationError for values of a body. See
// credentials.Service.
type Credentials interface {
	// Authenticate returns the principal of a token; an empty token is a missing one.
	Authenticate(ctx context.Context, token string) (signal.Principal, error)
	// RequireJWT refuses a principal that was authenticated by an API key.
	RequireJWT(p signal.Principal) error

	Login(ctx context.Context, email, password string) (credentials.Tokens, error)
	Refresh(ctx context.Context, token string) (credentials.Tokens, error)
	Logout(ctx context.Context, p signal.Principal, all bool) error
	CreateAccount(ctx context.Context, email, password string) (credential.Account, error)
	ChangePassword(ctx context.Context, p signal.Principal, current, next string) error
	Account(ctx context.Context, id signal.AccountID) (credential.Account, error)

	CreateKey(ctx context.Context, account signal.AccountID, name string, scopes []string,
		expiresIn *int64) (credential.APIKey, string, error)
	Keys(ctx context.Context, account signal.AccountID, limit, offset int) ([]credential.APIKey, int, error)
	RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID) error
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

// authenticate sets the principal of the call if its operation requires one.
func (s *Server) authenticate(c *call) error {
	switch c.operation.guard {
	case public:
		return nil
	case handshake:
		return s.authenticateStream(c)
	case anyToken, jwtOnly:
	}
	if err := s.identify(c, bearerToken(c.r.Header)); err != nil {
		return err
	}
	accepted(c.r.Context())
	if c.operation.guard == jwtOnly {
		return s.o.Credentials.RequireJWT(c.principal)
	}
	return nil
}

// errMalformed describes the form of an Authorization header. It does not repeat the token.
var errMalformed = &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token",
	Message: "The Authorization header must be the word Bearer, a space and the token."}

// identify sets the principal of the call to that of the token.
func (s *Server) identify(c *call, token string) (err error) {
	c.principal, err = s.o.Credentials.Authenticate(c.r.Context(), token)
	if err != nil && token == malformedToken {
		return errMalformed
	}
	return err
}

// client returns the context of the request with its origin, for the log of credentials.
func (c *call) client() context.Context {
	return credentials.WithClient(c.r.Context(), credentials.Client{Address: c.address, Request: c.id})
}

// audit logs a change of a webhook by the caller, without the URL of the endpoint, which may
// hold a secret.
func (s *Server) audit(c *call, what string, webhook signal.WebhookID) {
	attrs := []slog.Attr{slog.String("account", string(c.principal.Account)), slog.String("webhook", string(webhook))}
	if c.principal.Session != "" {
		attrs = append(attrs, slog.String("session", string(c.principal.Session)))
	} else {
		attrs = append(attrs, slog.String("key", string(c.principal.Key)))
	}
	attrs = append(attrs, slog.String("address", c.address), slog.String("request", c.id))
	s.log.LogAttrs(c.r.Context(), slog.LevelInfo, what, attrs...)
}

// tokensView is the Login token object of the specification.
type tokensView struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
}

func (c *call) tokens(t credentials.Tokens) error {
	return c.value(http.StatusOK, tokensView{t.Access, "bearer", int64(t.ExpiresIn / time.Second), t.Refresh})
}

// decode reads a required body with read and returns the faults of the request.
func (c *call) decode(read func(o *request.Object)) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	return c.finish(o, read)
}

// finish reads o with read, records its unknown members and returns the faults of the
// request. o is nil if reading the body failed.
func (c *call) finish(o *request.Object, read func(o *request.Object)) error {
	if o != nil {
		read(o)
		o.Close()
	}
	return c.faults.Err()
}

// login answers POST /v1/auth/login.
func (s *Server) login(c *call) error {
	var email, password string
	if err := c.decode(func(o *request.Object) {
		email, password = o.Given("email", credentials.LoginRule), o.Given("password", credentials.LoginRule)
	}); err != nil {
		return err
	}
	t, err := s.o.Credentials.Login(c.client(), email, password)
	if err != nil {
		return err
	}
	return c.tokens(t)
}

// refresh answers POST /v1/auth/refresh.
func (s *Server) refresh(c *call) error {
	var token string
	if err := c.decode(func(o *request.Object) {
		token = o.Given("refresh_token", credentials.RefreshRule)
	}); err != nil {
		return err
	}
	t, err := s.o.Credentials.Refresh(c.client(), token)
	if err != nil {
		return err
	}
	return c.tokens(t)
}

// logout answers POST /v1/auth/logout.
func (s *Server) logout(c *call) error {
	var all bool
	if _, err := c.decodeOptional(func(o *request.Object) { all, _ = o.Bool("all") }); err != nil {
		return err
	}
	if err := s.o.Credentials.Logout(c.client(), c.principal, all); err != nil {
		return err
	}
	return c.noContent()
}

// newPassword reads a new password. It checks the length, so that its fault is listed
// together with the others of the body; the service has further rules.
func newPassword(o *request.Object, name string) string {
	p := o.Given(name, credentials.PasswordRule)
	if code, detail := credentials.CheckPasswordLength(p); p != "" && code != "" {
		o.Bad(name, code, detail)
	}
	return p
}

// register answers POST /v1/auth/register.
func (s *Server) register(c *call) error {
	var email, password string
	if err := c.decode(func(o *request.Object) {
		email = o.Given("email", credentials.EmailRule)
		password = o.Given("password", credentials.PasswordRule)
		given := map[string]string{"email": email, "password": password}
		for _, f := range credentials.CheckAccount(email, password) {
			if given[f.Field] != "" { // o.Given has recorded empty ones
				o.Bad(f.Field, f.Code, f.Detail)
			}
		}
	}); err != nil {
		return err
	}
	a, err := s.o.Credentials.CreateAccount(c.client(), email, password)
	if err != nil {
		return err
	}
	return c.value(http.StatusCreated, viewAccount(a))
}

// changePassword answers POST /v1/auth/password.
func (s *Server) changePassword(c *call) error {
	var current, next string
	if err := c.decode(func(o *request.Object) {
		current = o.Given("current_password", credentials.CurrentPasswordRule)
		next = newPassword(o, "new_password")
	}); err != nil {
		return err
	}
	if err := s.o.Credentials.ChangePassword(c.client(), c.principal, current, next); err != nil {
		return err
	}
	return c.noContent()
}
