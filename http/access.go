package http

import (
	"context"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Accounts keeps accounts. Its errors are *signal.Error, or credentials.ValidationError for values of a body.
// See credentials.Accounts.
type Accounts interface {
	CreateAccount(ctx context.Context, email, password string) (credential.Account, error)
	ChangePassword(ctx context.Context, p signal.Principal, current, next string) error
	Account(ctx context.Context, id signal.AccountID) (credential.Account, error)
}

// Sessions keeps sessions, with the errors of Accounts. See credentials.Sessions.
type Sessions interface {
	Login(ctx context.Context, email, password string) (credentials.Tokens, error)
	Refresh(ctx context.Context, token string) (credentials.Tokens, error)
	Logout(ctx context.Context, p signal.Principal, all bool) error
}

// AccessHandlers answer for accounts and their sessions.
type AccessHandlers struct {
	accounts     Accounts
	sessions     Sessions
	registration bool
}

// NewAccessHandlers returns the handlers of accounts, to which anyone may add one with registration.
func NewAccessHandlers(accounts Accounts, sessions Sessions, registration bool) *AccessHandlers {
	return &AccessHandlers{accounts, sessions, registration}
}

// Routes implements Resource.
func (h *AccessHandlers) Routes() []*Route {
	routes := []*Route{
		route("/v1/account", methods{"GET": immediate(get("", h.account))}), // confirmed with each of its credentials
		route("/v1/auth/logout", methods{"POST": {guard: jwtOnly, class: limits.Sessions, handle: h.logout}}),
		route("/v1/auth/password", methods{"POST": {guard: jwtOnly, class: limits.Writes, handle: h.changePassword}}),
		route("/v1/auth/login", methods{"POST": {class: limits.Logins, handle: h.login}}),
		route("/v1/auth/refresh", methods{"POST": {class: limits.Sessions, handle: h.refresh}}),
	}
	if h.registration {
		routes = append(routes, route("/v1/auth/register", methods{"POST": {class: limits.Registrations, handle: h.register}}))
	}
	return routes
}

// tokensView is the Login token object of the specification.
type tokensView struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
}

// answerTokens answers with the tokens of a session.
func answerTokens(c *call, t credentials.Tokens, err error) error {
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, tokensView{t.Access, "bearer", int64(t.ExpiresIn / time.Second), t.Refresh})
}

// login answers POST /v1/auth/login.
func (h *AccessHandlers) login(c *call) error {
	var email, password string
	if err := c.decode(func(o *request.Object) {
		email, password = o.Given("email", credentials.LoginRule), o.Given("password", credentials.LoginRule)
	}); err != nil {
		return err
	}
	t, err := h.sessions.Login(c.client(), email, password)
	return answerTokens(c, t, err)
}

// refresh answers POST /v1/auth/refresh.
func (h *AccessHandlers) refresh(c *call) error {
	var token string
	if err := c.decode(func(o *request.Object) {
		token = o.Given("refresh_token", credentials.RefreshRule)
	}); err != nil {
		return err
	}
	t, err := h.sessions.Refresh(c.client(), token)
	return answerTokens(c, t, err)
}

// logout answers POST /v1/auth/logout.
func (h *AccessHandlers) logout(c *call) error {
	var all bool
	if _, err := c.decodeOptional(func(o *request.Object) { all, _ = o.Bool("all") }); err != nil {
		return err
	}
	if err := h.sessions.Logout(c.client(), c.principal, all); err != nil {
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
func (h *AccessHandlers) register(c *call) error {
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
	a, err := h.accounts.CreateAccount(c.client(), email, password)
	if err != nil {
		return err
	}
	return c.value(http.StatusCreated, viewAccount(a))
}

// changePassword answers POST /v1/auth/password.
func (h *AccessHandlers) changePassword(c *call) error {
	var current, next string
	if err := c.decode(func(o *request.Object) {
		current = o.Given("current_password", credentials.CurrentPasswordRule)
		next = newPassword(o, "new_password")
	}); err != nil {
		return err
	}
	if err := h.accounts.ChangePassword(c.client(), c.principal, current, next); err != nil {
		return err
	}
	return c.noContent()
}

type accountView struct {
	AccountID signal.AccountID `json:"account_id"`
	Email     string           `json:"email"`
	CreatedAt instant          `json:"created_at"`
}

func viewAccount(a credential.Account) accountView {
	return accountView{a.ID, a.Email, instant(a.CreatedAt)}
}

// account answers GET /v1/account.
func (h *AccessHandlers) account(c *call) error {
	a, err := h.accounts.Account(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewAccount(a))
}
