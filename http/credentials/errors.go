package credentials

import (
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// These errors do not reveal which of several reasons applied.
var (
	errMissing = unauthorized("missing_credentials", "An Authorization header with a bearer token is needed: "+
		"the word Bearer, a space and an API key or an access token.")
	errInvalidToken = unauthorized("invalid_token",
		"The token is unknown, revoked or expired: use another API key, or log in again.")
	errJWTRequired = unauthorized("jwt_required",
		"This needs an access token from login (POST /v1/auth/login); an API key is not accepted.")
	errInvalidCredentials = unauthorized("invalid_credentials", "The email or the password is wrong.")
	errInvalidRefresh     = unauthorized("invalid_refresh_token",
		"The refresh token is unknown, used, revoked or expired: log in again.")
	errBusy = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", RetryAfter: 5 * time.Second,
		Message: "Too many passwords are being checked. Try again in a moment."}
)

func unauthorized(code, message string) error {
	return &signal.Error{Kind: signal.KindUnauthorized, Code: code, Message: message}
}

// locked returns the error of logins with an email that is locked for d.
func locked(d time.Duration) error {
	return &signal.Error{Kind: signal.KindTooMany, Code: "account_locked", RetryAfter: d,
		Message: "There were too many failed logins. Try again later."}
}

// FieldError is a fault of one input value.
type FieldError struct {
	Field  string // the path in the body, without leading slash: "email", "scopes/1"
	Code   string // of package request
	Detail string // for people
}

// ValidationError lists all faults of the input.
type ValidationError []FieldError

// Error implements error.
func (e ValidationError) Error() string {
	if len(e) == 0 {
		return "no fault"
	}
	text := ""
	for i, f := range e {
		if i > 0 {
			text += "; "
		}
		text += f.Field + " " + strings.TrimPrefix(f.Detail, f.Field+" ") // some details begin with the field
	}
	return text
}

// orNil returns e as an error if it holds any fault.
func (e ValidationError) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

func (e *ValidationError) add(field, code, detail string) {
	*e = append(*e, FieldError{Field: field, Code: code, Detail: detail})
}

// require records a fault if value is empty.
func (e *ValidationError) require(field, value, rule string) {
	if value == "" {
		e.add(field, request.CodeRequired, field+" is required and "+rule)
	}
}
