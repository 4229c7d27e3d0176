package credentials

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxEmail    = 254
	minPassword = 12
	maxPassword = 128
)

// NormalizeEmail returns email as it is stored and compared.
func NormalizeEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// CheckAccount returns the faults of "email" and "password" that CreateAccount would
// find; empty if there are none.
func CheckAccount(email, password string) ValidationError {
	var v ValidationError
	email = checkEmail(&v, "email", email)
	checkPassword(&v, "password", password, email)
	return v
}

// checkEmail returns the normalized email, and notes its faults.
func checkEmail(v *ValidationError, field, email string) string {
	email = NormalizeEmail(email)
	switch {
	case email == "":
		v.add(field, "required", field+" is required and must be an email address such as name@example.com")
	case utf8.RuneCountInString(email) > maxEmail:
		v.add(field, "too_long", "must have at most 254 characters")
	case !isEmail(email):
		v.add(field, "invalid_format", "must be an email address such as name@example.com")
	}
	return email
}

// isEmail says that s is one plain address, without a display name, comments or
// quotes.
func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Name == "" && a.Address == s && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '"'
	})
}

// checkPassword notes the faults of a new password for the account with the
// normalized email.
func checkPassword(v *ValidationError, field, password, email string) {
	n := utf8.RuneCountInString(password)
	switch {
	case password == "":
		v.add(field, "required", field+" is required and must have 12 to 128 characters")
	case n < minPassword:
		v.add(field, "too_short", "must have at least 12 characters")
	case n > maxPassword:
		v.add(field, "too_long", "must have at most 128 characters")
	case NormalizeEmail(password) == email:
		v.add(field, "invalid_value", "must not be the email: choose another of 12 to 128 characters")
	case isCommon(password):
		v.add(field, "invalid_value", "is one of the commonest: choose another of 12 to 128 characters")
	}
}
