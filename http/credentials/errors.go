package credentials

import (
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Errors have one text for all of a kind, which does not reveal the reason.
var (
	errMissing = &signal.Error{Kind: signal.KindUnauthorized, Code: "missing_credentials",
		Message: "An Authorization header with a bearer token is needed: the word Bearer, a space and an API key or an " +
			"access token."}
	errInvalidToken = &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token",
		Message: "The token is unknown, revoked or expired: use another API key, or log in again."}
	errJWTRequired = &signal.Error{Kind: signal.KindUnauthorized, Code: "jwt_required",
		Message: "This needs an access token from login (POST /v1/auth/login); an API key is not accepted."}
	errInvalidCredentials = &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_credentials",
		Message: "The email or the password is wrong."}
	errBusy = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable",
		Message: "Too many passwords are being checked. Try again in a moment.", RetryAfter: busyFor}
	errInvalidRefresh = &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_refresh_token",
		Message: "The refresh token is unknown, used, revoked or expired: log in again."}
)

// busyFor is when a client should come back that found too many passwords waiting.
const busyFor = 5 * time.Second

// locked returns the refusal of logins of an email for d.
func locked(d time.Duration) error {
	return &signal.Error{Kind: signal.KindTooMany, Code: "account_locked", RetryAfter: d,
		Message: "There were too many failed logins. Try again later."}
}

// FieldError is a fault of one input value.
type FieldError struct {
	Field  string // its path in the body, without leading slash: "email", "scopes/1"
	Code   string // of those in the API decisions: "required", "too_short", …
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
		text += f.Field + " " + strings.TrimPrefix(f.Detail, f.Field+" ") // some name it themselves
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
