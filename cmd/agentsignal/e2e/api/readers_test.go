package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// wireReader is a reader in lists and, with its secret, as it is made.
type wireReader struct {
	ID          string         `json:"key_id"`
	Secret      string         `json:"api_key"`
	Name        string         `json:"name"`
	View        map[string]any `json:"view"`
	Max         int            `json:"max_connections"`
	Connections int            `json:"connections"`
}

type wireReaders struct {
	APIKeys []wireReader `json:"api_keys"`
	Total   int          `json:"total"`
}

func makeReaders(user *e2e.Client, prefix string, count int, view string) []wireReader {
	user.TB.Helper()
	body := fmt.Sprintf(`{"name_prefix":%q,"count":%d,"view":%s}`, prefix, count, view)
	return e2e.Decode[wireReaders](user.TB, user.Post("/v1/auth/api-keys/batch", body).Ok(user.TB).Body).APIKeys
}

func listReaders(user *e2e.Client, query string) wireReaders {
	user.TB.Helper()
	return e2e.Decode[wireReaders](user.TB, user.Get("/v1/auth/api-keys?view=true"+query).Ok(user.TB).Body)
}

// TestReadersAreMadeListedAndRevoked by the hundred, in pages and by their names.
func TestReadersAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, _ := s.User(t)
	other := user.Key("plain-1", "")
	readers := makeReaders(user, "plain", 120, `{"assets":["bitcoin"]}`)
	if readers[0].Name != "plain-2" || readers[119].Name != "plain-121" { // behind the key plain-1
		t.Errorf("names from %s to %s", readers[0].Name, readers[119].Name)
	}
	more := makeReaders(user, "plain", 1, `{}`)
	if more[0].Name != "plain-122" {
		t.Errorf("the next name is %s", more[0].Name)
	}
	var listed []string
	for offset := 0; offset < 130; offset += 50 {
		page := listReaders(user, fmt.Sprintf("&limit=50&offset=%d", offset))
		if page.Total != 121 {
			t.Errorf("total %d", page.Total)
		}
		for _, r := range page.APIKeys {
			listed = append(listed, r.Name)
		}
	}
	if len(listed) != 121 || listed[0] != "plain-122" || listed[1] != "plain-121" || listed[120] != "plain-2" {
		t.Errorf("listed %d: %s", len(listed), listed)
	}
	if got := fmt.Sprint(listReaders(user, "&limit=1&offset=1").APIKeys[0].View); got != "map[assets:[BTC]]" {
		t.Errorf("a view is %s", got)
	}
	if keys := e2e.Decode[wireReaders](t, user.Get("/v1/auth/api-keys").Ok(t).Body); keys.Total != 1 ||
		keys.APIKeys[0].Name != "plain-1" {
		t.Errorf("other keys: %+v", keys)
	}
	user.With(readers[0].Secret).Get("/v1/auth/api-keys?view=true").Fails(t, "jwt_required")

	revoke := func(prefix string) string {
		return user.Do(http.MethodDelete, "/v1/auth/api-keys?name_prefix="+prefix, "").Ok(t).Body
	}
	user.Do(http.MethodDelete, "/v1/auth/api-keys/"+readers[1].ID, "").Want(t, http.StatusNoContent)
	for i, r := range readers[:3] {
		if _, err := s.Credentials().Authenticator.Authenticate(t.Context(), r.Secret); (err != nil) != (i == 1) {
			t.Errorf("reader %d: %v", i, err)
		}
	}
	if got := revoke("plain-1") + revoke("plain-1") + revoke("plain"); got != `{"revoked":33}{"revoked":0}{"revoked":87}` {
		t.Errorf("revoked %s", got)
	}
	for _, r := range append(readers, more...) {
		user.With(r.Secret).Get("/v1/signals").Fails(t, "invalid_token")
	}
	user.With(other.Secret).Get("/v1/signals").Ok(t)
}

// TestTenThousandReaders are made in 20 calls, and revoked in one while a stream of another key goes on. Then no more may be
// made. The account is deleted with the last of them.
func TestTenThousandReaders(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it makes 10,000 keys twice")
	}
	s := e2e.Start(t, e2e.TestConfig(t, redistest.New(t).URL()))
	user, tokens, _ := s.User(t)
	live := user.With(user.Key("live", "").Secret).Dial()
	var readers []wireReader
	fill := func() {
		t.Helper()
		began := time.Now()
		readers = nil
		for i := range 20 {
			readers = append(readers, makeReaders(user, fmt.Sprint("group", i%3), 500, `{"assets":["BTC","ETH"]}`)...)
		}
		t.Logf("10,000 readers in 20 calls: %v", time.Since(began))
	}
	fill()
	for _, try := range []struct{ path, body string }{{"/v1/auth/api-key", `{"name":"more","view":{}}`},
		{"/v1/auth/api-keys/batch", `{"name_prefix":"more","count":1,"view":{}}`}} {
		user.Post(try.path, try.body).Fails(t, "limit_reached")
	}
	user.Key("another key", "")
	page := listReaders(user, "&limit=100&offset=9900")
	if page.Total != 10_000 || len(page.APIKeys) != 100 || page.APIKeys[99].ID != readers[0].ID {
		t.Errorf("the last page of %d has %d, to %+v", page.Total, len(page.APIKeys), page.APIKeys[len(page.APIKeys)-1])
	}
	for _, r := range readers {
		if _, err := s.Credentials().Authenticator.Authenticate(t.Context(), r.Secret); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if got := user.Do(http.MethodDelete, "/v1/auth/api-keys?name_prefix=group", "").Ok(t).Body; got != `{"revoked":10000}` {
		t.Errorf("revoked %s", got)
	}
	t.Logf("10,000 readers revoked: %v", time.Since(began))
	for _, r := range readers {
		if _, err := s.Credentials().Authenticator.Authenticate(t.Context(), r.Secret); err == nil {
			t.Fatalf("%s is still valid", r.Name)
		}
	}
	live.Ping()

	fill()
	began = time.Now()
	if err := s.Credentials().Accounts.DeleteAccount(t.Context(), accountOf(t, s, tokens)); err != nil {
		t.Fatal(err)
	}
	t.Logf("the account deleted with them: %v", time.Since(began))
	live.Closes(4403)
	for _, r := range readers {
		if _, err := s.Credentials().Authenticator.Authenticate(t.Context(), r.Secret); err == nil {
			t.Fatalf("%s is still valid", r.Name)
		}
	}
}

func accountOf(t *testing.T, s *e2e.Service, tokens e2e.Tokens) signal.AccountID {
	t.Helper()
	p, err := s.Credentials().Authenticator.Authenticate(t.Context(), tokens.Access)
	if err != nil {
		t.Fatal(err)
	}
	return p.Account
}

// TestViewsOfRealNames have the spellings of the catalogues, and are refused with the name that was meant.
func TestViewsOfRealNames(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, _ := s.User(t)
	user.Post("/v1/agents", `{"id":"crosses","name":"Mine","category":"trading","strategies":["golden_cross"]}`).
		Want(t, http.StatusCreated)
	create := func(view string) e2e.Answer {
		return user.Post("/v1/auth/api-key", fmt.Sprintf(`{"name":%q,"view":%s}`, signal.NewKeyID(), view))
	}
	unknown := make([]string, 100)
	for i := range unknown {
		unknown[i] = fmt.Sprintf("subject %d of <b>many</b>", i)
	}
	slices.Sort(unknown)
	for view, want := range map[string]map[string]any{
		`{"assets":["bitcoin","btc-usd"," gold "]}`: {"assets": []any{"BTC", "XAUUSD"}},
		`{"agents":["crosses","seo"],"strategies":["golden_cross"]}`: {"agents": []any{"crosses", "seo"},
			"strategies": []any{"golden_cross"}},
		`{"agents":[],"assets":[],"strategies":[]}`:      {"agents": []any{}, "assets": []any{}, "strategies": []any{}},
		e2e.JsonOf(t, map[string]any{"assets": unknown}): {"assets": anyOf(unknown)},
		`{"assets":["` + strings.Repeat("é", 64) + `"],"strategies":[]}`: {"assets": []any{strings.Repeat("é", 64)},
			"strategies": []any{}},
	} {
		got := e2e.Decode[wireReader](t, create(view).Want(t, http.StatusCreated).Body)
		if d := cmp.Diff(want, got.View); d != "" || got.Max != 5 {
			t.Errorf("%.60s (-want +got):\n%s", view, d)
		}
	}
	for view, want := range map[string]string{
		`{"assets":["AAPLL"]}`:             "did you mean",
		`{"agents":["crosess"]}`:           "did you mean crosses?",
		`{"strategies":["goldn_cross"]}`:   "did you mean golden_cross?",
		`{"strategies":["no such thing"]}`: "there is no such strategy: GET /v1/agents lists all",
	} {
		if p := create(view).Fails(t, "invalid_request"); len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Detail, want) {
			t.Errorf("%s: %+v, want %s", view, p.Errors, want)
		}
	}
	// Another account does not know the agent.
	other, _, _ := s.User(t)
	other.Post("/v1/auth/api-key", `{"name":"r","view":{"agents":["crosses"]}}`).Fails(t, "invalid_request")
}

func anyOf(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// TestReadersOnTheStream get what their views have, live and by resuming, however they authenticate and whatever they ask for.
func TestReadersOnTheStream(t *testing.T) {
	t.Parallel()
	user, _, _ := e2e.Shared(t).User(t)
	trader := user.With(user.Key("owner", "").Secret)
	write := func(subject string) string {
		a := trader.Post("/v1/agents/seo/run", e2e.RunBody(subject, "blog_post")).Ok(t)
		return e2e.Decode[e2e.WireSignal](t, a.Body).ID
	}
	reader := e2e.Decode[wireReader](t, user.Post("/v1/auth/api-key",
		`{"name":"ann","view":{"assets":["standing desk"],"agents":["seo"]},"max_connections":4}`).
		Want(t, http.StatusCreated).Body)
	const all = `"channels":["signal.new","signal.updated","agent.status","system.notification"]`
	owner, first, second := trader.Dial(), user.With(reader.Secret).Dial(), trader.With("").Dial()
	second.Send(`{"action":"auth","api_key":"` + reader.Secret + `"}`)
	second.Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
	second.Subscribe(all + `,"filters":{"assets":["standing desk","office chair"]}`)
	events := user.With(reader.Secret).Events("channels=signal.new,agent.status&assets=standing%20desk,office%20chair")
	events.Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
	var seen, hidden []string
	for range 2 {
		seen, hidden = append(seen, write("standing desk")), append(hidden, write("office chair"))
	}
	end := write("standing desk")
	owner.Signals(seen[0], hidden[0], seen[1], hidden[1], end)
	for _, s := range []*e2e.Stream{first, second, events.Stream} {
		s.Signals(seen[0], seen[1], end)
	}
	again := user.With(reader.Secret).Dial()
	again.Resumes(owner, seen[0], 2)
	elsewhere := owner.Await("a signal", func(m e2e.Message) bool { return m.SignalOf() == hidden[0] }).ID
	if d := again.Subscribe(all + `,"last_event_id":"` + elsewhere + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("from an event outside of the view: %+v", d.Resumed)
	}
	for _, m := range slices.Concat(first.Events(), second.Events(), again.Events(), events.Stream.Events()) {
		for _, id := range hidden {
			if strings.Contains(string(m.Data), id) {
				t.Errorf("a reader got %s", m.Data)
			}
		}
	}
	if n := listReaders(user, "").APIKeys[0].Connections; n != 4 {
		t.Errorf("the reader has %d connections", n)
	}
	_, answer, err := user.With(reader.Secret).TryDial(http.Header{})
	if err == nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one connection more: %v", err)
	}
	if _, a := user.With(reader.Secret).TryEvents(""); a.Status != http.StatusTooManyRequests {
		t.Errorf("one connection more by Server-Sent Events: %d %s", a.Status, a.Body)
	}
	more := trader.With("").Dial()
	more.Send(`{"action":"auth","api_key":"` + reader.Secret + `"}`)
	more.Closes(4429)
	user.Do(http.MethodDelete, "/v1/auth/api-keys/"+reader.ID, "").Want(t, http.StatusNoContent)
	first.Closes(4401)
	second.Closes(4401)
	events.Closes(4401)
}
