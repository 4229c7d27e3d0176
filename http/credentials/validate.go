package credentials

import (
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a client may choose, in characters unless a unit is named.
const (
	MaxEmail     = 254
	MinPassword  = 12
	MaxPassword  = 128
	MaxKeyName   = 100
	MaxExpiresIn = 315_360_000 // seconds: ten years
)

// The rules of those values, for the details of faults: "name must …".
var (
	EmailRule    = "must be an email address such as name@example.com"
	PasswordRule = fmt.Sprintf("must have %d to %d characters", MinPassword, MaxPassword)
	KeyNameRule  = fmt.Sprintf("must have 1 to %d characters", MaxKeyName)
)

// NormalizeEmail returns email as it is stored and compared.
func NormalizeEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// CheckAccount returns the faults of "email" and "password" that CreateAccount would find.
func CheckAccount(email, password string) ValidationError {
	var v ValidationError
	email = checkEmail(&v, "email", email)
	checkPassword(&v, "password", password, email)
	return v
}

// checkEmail returns the normalized email, and records its faults.
func checkEmail(v *ValidationError, field, email string) string {
	email = NormalizeEmail(email)
	switch {
	case email == "":
		v.add(field, "required", field+" is required and "+EmailRule)
	case utf8.RuneCountInString(email) > MaxEmail:
		v.add(field, "too_long", atMost(MaxEmail))
	case !isEmail(email):
		v.add(field, "invalid_format", EmailRule)
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

// checkPassword records the faults of a new password for the account with the
// normalized email.
func checkPassword(v *ValidationError, field, password, email string) {
	code, detail := CheckPasswordLength(password)
	another := fmt.Sprintf("choose another of %d to %d characters", MinPassword, MaxPassword)
	switch {
	case password == "":
		v.add(field, "required", field+" is required and "+PasswordRule)
	case code != "":
		v.add(field, code, detail)
	case NormalizeEmail(password) == email:
		v.add(field, "invalid_value", "must not be the email: "+another)
	case isCommon(password):
		v.add(field, "invalid_value", "is one of the commonest: "+another)
	}
}

// CheckPasswordLength returns the fault of the length of a new password; the code is empty
// if there is none.
func CheckPasswordLength(password string) (code, detail string) {
	switch n := utf8.RuneCountInString(password); {
	case n < MinPassword:
		return "too_short", fmt.Sprintf("must have at least %d characters", MinPassword)
	case n > MaxPassword:
		return "too_long", atMost(MaxPassword)
	}
	return "", ""
}

// atMost is the detail of a text that is too long.
func atMost(characters int) string { return fmt.Sprintf("must have at most %d characters", characters) }
