package credentials

import (
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/http/request"
)

// Limits of values that clients choose, in characters unless another unit is named.
const (
	MaxEmail     = 254
	MinPassword  = 12
	MaxPassword  = 128
	MaxKeyName   = 100
	MaxKeyPrefix = 80          // of the names of readers that are created together
	MaxExpiresIn = 315_360_000 // seconds: ten years
)

// The rules of values, for the details of faults: "name must …".
const (
	EmailRule           = "must be an email address such as name@example.com"
	BlankName           = "must have at least 1 character other than a space"
	LoginRule           = "must be that of the account"
	RefreshRule         = "must be the one of the last login or refresh"
	CurrentPasswordRule = "must be the one in force"
)

// PasswordRule states the limits of passwords.
var PasswordRule = fmt.Sprintf("must have %d to %d characters", MinPassword, MaxPassword)

// KeyNameRule states the limits of names.
func KeyNameRule(maxLength int) string { return fmt.Sprintf("must have 1 to %d characters", maxLength) }

// NormalizeEmail returns email as it is stored and compared.
func NormalizeEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// CheckAccount returns the faults of "email" and "password" that CreateAccount would find.
func CheckAccount(email, password string) ValidationError {
	var v ValidationError
	email = checkEmail(&v, "email", email)
	checkPassword(&v, "password", password, email)
	return v
}

// checkEmail returns the normalized email and records its fault.
func checkEmail(v *ValidationError, field, email string) string {
	email = NormalizeEmail(email)
	v.require(field, email, EmailRule)
	switch {
	case email == "":
	case utf8.RuneCountInString(email) > MaxEmail:
		v.add(field, request.CodeTooLong, request.AtMost(MaxEmail))
	case !isEmail(email):
		v.add(field, request.CodeFormat, EmailRule)
	}
	return email
}

// isEmail reports whether s is one plain address, without a display name, comments or
// quotes.
func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Name == "" && a.Address == s && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '"'
	})
}

// checkPassword records the fault of a new password for the account with the normalized
// email.
func checkPassword(v *ValidationError, field, password, email string) {
	code, detail := CheckPasswordLength(password)
	another := fmt.Sprintf("choose another of %d to %d characters", MinPassword, MaxPassword)
	v.require(field, password, PasswordRule)
	switch {
	case password == "":
	case code != "":
		v.add(field, code, detail)
	case NormalizeEmail(password) == email:
		v.add(field, request.CodeInvalidValue, "must not be the email: "+another)
	case isCommon(password):
		v.add(field, request.CodeInvalidValue, "is one of the commonest: "+another)
	}
}

// CheckPasswordLength returns the fault of the length of a new password, or empty strings.
func CheckPasswordLength(password string) (code, detail string) {
	switch n := utf8.RuneCountInString(password); {
	case n < MinPassword:
		return request.CodeTooShort, fmt.Sprintf("must have at least %d characters", MinPassword)
	case n > MaxPassword:
		return request.CodeTooLong, request.AtMost(MaxPassword)
	}
	return "", ""
}
