package service

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// eachKey calls f with each key of a Redis.
func eachKey(tb testing.TB, rdb *redis.Client, f func(key string)) {
	tb.Helper()
	keys := rdb.Scan(tb.Context(), 0, "*", 1000).Iterator()
	for keys.Next(tb.Context()) {
		f(keys.Val())
	}
	if err := keys.Err(); err != nil {
		tb.Fatalf("scan: %v", err)
	}
}

// traces returns the places in Redis, names of keys and stored values, that contain one of
// the texts. It skips prices and keys with a suffix in without.
func (h hookService) traces(tb testing.TB, texts []string, without ...string) (found []string) {
	tb.Helper()
	eachKey(tb, h.redis, func(key string) {
		if strings.HasPrefix(key, "market:") || strings.HasPrefix(key, "{market-") ||
			slices.ContainsFunc(without, func(end string) bool { return strings.HasSuffix(key, end) }) {
			return
		}
		all := append(stored(tb, h.redis, key), key...)
		for _, text := range texts {
			if bytes.Contains(all, []byte(text)) {
				found = append(found, fmt.Sprintf("%q in %s", text, key))
			}
		}
	})
	return found
}

// stored returns all texts that are stored at a key, one a line.
func stored(tb testing.TB, rdb *redis.Client, key string) []byte {
	tb.Helper()
	kind, err := rdb.Type(tb.Context(), key).Result()
	if err != nil {
		tb.Fatalf("read the type of %s: %v", key, err)
	}
	if kind == "none" {
		return nil // it has expired
	}
	read := map[string][]any{"string": {"GET", key}, "hash": {"HGETALL", key}, "zset": {"ZRANGE", key, 0, -1},
		"set": {"SMEMBERS", key}, "list": {"LRANGE", key, 0, -1}, "stream": {"XRANGE", key, "-", "+"}}[kind]
	if read == nil {
		tb.Fatalf("%s has the type %q", key, kind)
	}
	v, err := rdb.Do(tb.Context(), read...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatalf("read %s: %v", key, err)
	}
	var b bytes.Buffer
	flatten(&b, v)
	return b.Bytes()
}

// flatten writes all texts in a reply of Redis, one a line.
func flatten(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			flatten(b, one)
		}
	case map[any]any:
		for name, value := range v {
			flatten(b, name)
			flatten(b, value)
		}
	case string:
		b.WriteString(v)
		b.WriteByte('\n')
	}
}

// dump returns all keys and values of a Redis, of every type.
func dump(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	var all strings.Builder
	n := 0
	eachKey(t, rdb, func(key string) {
		n++
		fmt.Fprintf(&all, "%s\n%s\n", key, stored(t, rdb, key))
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
	server := redistest.New(t)
	c := hookConfig(t, server.URL())
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 1, "open"
	s := start(t, c)
	s.awaitPrices(t, "BTC", signal.H1)
	public := s.client(t)
	const (
		email, password, next = "marked-person@example.com", "marked-password-first", "marked-password-second"
		ownSecret, newSecret  = "marked-webhook-secret-of-24", "marked-webhook-secret-rotated"
	)
	secrets := map[string]string{"password": password, "new password": next, "webhook secret": ownSecret,
		"rotated webhook secret": newSecret}

	public.post("/v1/auth/register", credentialsBody(email, password)).want(t, http.StatusCreated)
	first := public.login(email, password)
	refreshed := decode[tokens](t, public.refresh(first.Refresh).ok(t).Body)
	user := public.with(refreshed.Access)
	secrets["access token"], secrets["refresh token"] = first.Access, first.Refresh
	secrets["second access token"], secrets["second refresh token"] = refreshed.Access, refreshed.Refresh
	made := user.key("marked key", "")
	secrets["API key"] = made.Secret
	trader := public.with(made.Secret)

	// Work, by header, by query and by message.
	live := trader.dial()
	for range 3 {
		trader.run("BTC", "momentum")
	}
	trader.awaitJob(trader.submit("BTC", "momentum").ID)
	live.until("the signals", func(all []message) bool { return len(signalsOf(all)) == 4 })
	byQuery := public.dialAt("/ws/dashboard?api_key=" + made.Secret)
	byQuery.until("the welcome", func(all []message) bool { return len(all) > 0 })
	byMessage := public.dialAt("/ws/dashboard")
	byMessage.send(`{"action":"auth","token":"` + refreshed.Access + `"}`)
	byMessage.until("the welcome", func(all []message) bool { return len(all) > 0 })

	// Webhooks with given and generated secrets, replays, failed deliveries.
	failing := newFailingEndpoint(t, http.StatusTeapot, "")
	body := `{"url":"` + failing.url + `","events":["signal.created"],"secret":"` + ownSecret + `"}`
	created := trader.post("/v1/webhooks", body, "Idempotency-Key: once").ok(t)
	if again := trader.post("/v1/webhooks", body, "Idempotency-Key: once"); again.Body != created.Body {
		t.Errorf("the replay is %d %s", again.Status, again.Body)
	}
	hook := decode[wireWebhook](t, created.Body)
	generated := decode[struct{ Secret string }](t,
		trader.post("/v1/webhooks", `{"url":"`+failing.url+`/2","events":["signal.created"]}`).ok(t).Body).
		Secret
	secrets["made webhook secret"] = generated
	trader.post("/v1/webhooks/"+hook.ID+"/rotate-secret", `{"secret":"`+newSecret+`"}`).ok(t)
	test := trader.test(hook)
	trader.awaitEnd(hook, test.ID, "failed")

	// What is refused.
	for range 6 {
		public.tryLogin(email, "marked-password-wrong")
	}
	must(t, s.process.credentials.Unlock(t.Context(), email))
	secrets["wrong password"] = "marked-password-wrong"
	unknown := unknownKey()
	secrets["unknown key"] = unknown
	for _, path := range []string{"/v1/account", "/v1/account?api_key=" + made.Secret,
		"/v1/nosuch/" + "x?token=" + refreshed.Access} {
		public.get(path)
		public.with(unknown).get(path)
		public.get(path, "Authorization: "+made.Secret) // without Bearer
		public.get(path, "Authorization: Basic "+refreshed.Access)
	}
	for _, text := range []string{`{"email":"` + email + `","password":"` + password,
		`{"email":1,"password":"` + password + `"}`, `"` + password + `"`} {
		public.post("/v1/auth/login", text)
		public.post("/v1/auth/register", text)
		user.post("/v1/auth/password", text)
		trader.post("/v1/webhooks", text)
	}
	public.refresh("rt_marked" + first.Refresh[9:])
	stored := dump(t, server.Client()) // while all of them are valid
	user.post("/v1/auth/password", `{"current_password":"`+password+`","new_password":"`+next+`"}`).
		want(t, http.StatusNoContent)
	public.refresh(first.Refresh).fails(t, "invalid_refresh_token") // ends the session
	user = public.with(public.login(email, next).Access)
	user.do(http.MethodDelete, "/v1/auth/api-keys/"+made.ID, "").want(t, http.StatusNoContent)
	user.post("/v1/auth/logout", `{"all":true}`).want(t, http.StatusNoContent)
	metrics := public.get("/metrics").ok(t).Body
	s.stop(t)
	logged := s.log.String()

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
		if s.log.Line(line, `"address":"127.0.0.1"`, `"account":"acc_`) == "" {
			t.Errorf("no line %s with account and address", line)
		}
	}
}

// middleOfBase64 returns what the base64 of a text that holds secret at a multiple of
// three bytes has for it.
func middleOfBase64(secret string) string {
	return base64.RawStdEncoding.EncodeToString([]byte(secret[:len(secret)/3*3]))
}
