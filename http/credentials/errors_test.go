package credentials

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestFaultsNameTheirFieldOnce as commands print them.
func TestFaultsNameTheirFieldOnce(t *testing.T) {
	t.Parallel()
	var scopes, none ValidationError
	checkScopes(&scopes, []string{"signal:read"}, signal.AllScopes)
	checkScopes(&none, []string{}, signal.AllScopes)
	tests := map[string]struct {
		faults ValidationError
		want   string
	}{
		"nothing given": {CheckAccount("", ""),
			"email is required and must be an email address such as name@example.com; " +
				"password is required and must have 12 to 128 characters"},
		"nothing right": {CheckAccount("ada", "short"),
			"email must be an email address such as name@example.com; password must have at least 12 characters"},
		"a common password": {CheckAccount("ada@example.com", "passwordpassword"),
			"password is one of the commonest: choose another of 12 to 128 characters"},
		"the email as password": {CheckAccount("ada.l@example.com", "ada.l@example.com"),
			"password must not be the email: choose another of 12 to 128 characters"},
		"an unknown scope": {scopes, "scopes/0 must be one of: agents:read, agents:run, signals:read, webhooks:manage"},
		"no scope": {none,
			"scopes must name at least one of: agents:read, agents:run, signals:read, webhooks:manage"},
	}
	for name, test := range tests {
		if got := test.faults.Error(); got != test.want {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
}

// TestRefusedTokensAreExplained and have one text whatever is wrong with them.
func TestRefusedTokensAreExplained(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		errMissing: "An Authorization header with a bearer token is needed: the word Bearer, a space and an API key " +
			"or an access token.",
		errInvalidToken:   "The token is unknown, revoked or expired: use another API key, or log in again.",
		errInvalidRefresh: "The refresh token is unknown, used, revoked or expired: log in again.",
		errJWTRequired:    "This needs an access token from login (POST /v1/auth/login); an API key is not accepted.",
	} {
		if err.Error() != want {
			t.Errorf("got %s\nwant %s", err, want)
		}
	}
}
