package api

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// dump returns all keys and values of a Redis, of every type.
func dump(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	var all strings.Builder
	n := 0
	e2e.EachKey(t, rdb, func(key string) {
		n++
		fmt.Fprintf(&all, "%s\n%s\n", key, e2e.Stored(t, rdb, key))
	})
	if n < 50 {
		t.Fatalf("%d keys", n)
	}
	return all.String()
}

// TestSecretsStayWhereTheyBelong uses marked secrets in valid and invalid requests, and
// searches for them in all that the service stores, logs and answers.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	server := redistest.New(t)
	c := e2e.HookConfig(t, server.URL())
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 1, "open"
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.H1)
	public := s.Client(t)
	const (
		email, password, next = "marked-person@example.com", "marked-password-first", "marked-password-second"
		ownSecret, newSecret  = "marked-webhook-secret-of-24", "marked-webhook-secret-rotated"
	)
	secrets := map[string]string{"password": password, "new password": next, "webhook secret": ownSecret,
		"rotated webhook secret": newSecret}

	public.Post("/v1/auth/register", e2e.CredentialsBody(email, password)).Want(t, http.StatusCreated)
	first := public.Login(email, password)
	refreshed := e2e.Decode[e2e.Tokens](t, public.Refresh(first.Refresh).Ok(t).Body)
	user := public.With(refreshed.Access)
	secrets["access token"], secrets["refresh token"] = first.Access, first.Refresh
	secrets["second access token"], secrets["second refresh token"] = refreshed.Access, refreshed.Refresh
	made := user.Key("marked key", "")
	secrets["API key"] = made.Secret
	trader := public.With(made.Secret)

	// Work, by header, by query and by message.
	live := trader.Dial()
	for range 3 {
		trader.Run("BTC", "momentum")
	}
	trader.AwaitJob(trader.Submit("BTC", "momentum").ID)
	live.Until("the signals", func(all []e2e.Message) bool { return len(e2e.SignalsOf(all)) == 4 })
	byQuery := public.DialAt("/ws/dashboard?api_key=" + made.Secret)
	byQuery.Until("the welcome", func(all []e2e.Message) bool { return len(all) > 0 })
	byMessage := public.DialAt("/ws/dashboard")
	byMessage.Send(`{"action":"auth","token":"` + refreshed.Access + `"}`)
	byMessage.Until("the welcome", func(all []e2e.Message) bool { return len(all) > 0 })

	// Webhooks with given and generated secrets, replays, failed deliveries.
	failing := e2e.NewFailingEndpoint(t, http.StatusTeapot, "")
	body := `{"url":"` + failing.URL + `","events":["signal.created"],"secret":"` + ownSecret + `"}`
	created := trader.Post("/v1/webhooks", body, "Idempotency-Key: once").Ok(t)
	if again := trader.Post("/v1/webhooks", body, "Idempotency-Key: once"); again.Body != created.Body {
		t.Errorf("the replay is %d %s", again.Status, again.Body)
	}
	hook := e2e.Decode[e2e.WireWebhook](t, created.Body)
	generated := e2e.Decode[struct{ Secret string }](t,
		trader.Post("/v1/webhooks", `{"url":"`+failing.URL+`/2","events":["signal.created"]}`).Ok(t).Body).
		Secret
	secrets["made webhook secret"] = generated
	trader.Post("/v1/webhooks/"+hook.ID+"/rotate-secret", `{"secret":"`+newSecret+`"}`).Ok(t)
	test := trader.Test(hook)
	trader.AwaitEnd(hook, test.ID, "failed")

	// What is refused.
	for range 6 {
		public.TryLogin(email, "marked-password-wrong")
	}
	e2e.Must(t, s.Credentials().Locks.Unlock(t.Context(), email))
	secrets["wrong password"] = "marked-password-wrong"
	unknown := e2e.UnknownKey()
	secrets["unknown key"] = unknown
	for _, path := range []string{"/v1/account", "/v1/account?api_key=" + made.Secret,
		"/v1/nosuch/" + "x?token=" + refreshed.Access} {
		public.Get(path)
		public.With(unknown).Get(path)
		public.Get(path, "Authorization: "+made.Secret) // without Bearer
		public.Get(path, "Authorization: Basic "+refreshed.Access)
	}
	for _, text := range []string{`{"email":"` + email + `","password":"` + password,
		`{"email":1,"password":"` + password + `"}`, `"` + password + `"`} {
		public.Post("/v1/auth/login", text)
		public.Post("/v1/auth/register", text)
		user.Post("/v1/auth/password", text)
		trader.Post("/v1/webhooks", text)
	}
	public.Refresh("rt_marked" + first.Refresh[9:])
	stored := dump(t, server.Client()) // while all of them are valid
	user.Post("/v1/auth/password", `{"current_password":"`+password+`","new_password":"`+next+`"}`).
		Want(t, http.StatusNoContent)
	public.Refresh(first.Refresh).Fails(t, "invalid_refresh_token") // ends the session
	user = public.With(public.Login(email, next).Access)
	user.Do(http.MethodDelete, "/v1/auth/api-keys/"+made.ID, "").Want(t, http.StatusNoContent)
	user.Post("/v1/auth/logout", `{"all":true}`).Want(t, http.StatusNoContent)
	metrics := public.Get("/metrics").Ok(t).Body
	s.Stop(t)
	logged := s.Log.String()

	places := map[string]string{"Redis": stored + dump(t, server.Client()), "the log": logged, "the metrics": metrics}
	for what, secret := range secrets {
		for place, text := range places {
			for form, value := range map[string]string{"": secret, " in hex": hex.EncodeToString([]byte(secret)),
				" in base64": middleOfBase64(secret)} {
				if strings.Contains(text, value) {
					at := strings.Index(text, value)
					t.Errorf("%s holds the %s%s: %.200q", place, what, form, text[max(0, at-100):])
				}
			}
		}
	}
	for place, text := range places {
		if place != "Redis" && (strings.Contains(text, email) || strings.Contains(text, "marked-person")) {
			t.Errorf("%s holds the email", place)
		}
	}
	// The search finds secrets that are there.
	for place, what := range map[string]string{"Redis": email, "the log": made.ID,
		"the metrics": "agentsignal_auth_locks_total 1"} {
		if !strings.Contains(places[place], what) {
			t.Errorf("%s does not hold %q", place, what)
		}
	}
	for _, line := range []string{`"msg":"account created"`, `"msg":"login"`, `"msg":"login failed"`,
		`"msg":"email locked after failed logins"`, `"msg":"API key created"`,
		`"msg":"API key revoked"`, `"msg":"password changed"`, `"msg":"session ended: a refresh token was used twice"`,
		`"msg":"logout"`, `"msg":"webhook created"`, `"msg":"webhook secret rotated"`} {
		if s.Log.Line(line, `"address":"127.0.0.1"`, `"account":"acc_`) == "" {
			t.Errorf("no line %s with account and address", line)
		}
	}
}

// middleOfBase64 returns what the base64 of a text that holds secret at a multiple of
// three bytes has for it.
func middleOfBase64(secret string) string {
	return base64.RawStdEncoding.EncodeToString([]byte(secret[:len(secret)/3*3]))
}
