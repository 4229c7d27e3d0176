package http_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
)

// fakeReaders makes readers as a test wants.
type fakeReaders struct {
	made    credentials.NewReader // of the last call
	count   int
	prefix  string // of the last revocation
	listed  []credential.APIKey
	failure error
}

func (f *fakeReaders) key(account signal.AccountID, name string, n credentials.NewReader) credential.APIKey {
	f.made = n
	k := credential.APIKey{ID: keyID, Account: account, Name: name, Prefix: secret[:8], Scopes: signal.ReaderScopes,
		CreatedAt: morning, View: n.View, MaxConnections: n.MaxConnections}
	if k.MaxConnections == 0 {
		k.MaxConnections = credentials.DefaultReaderConnections
	}
	return k
}

func (f *fakeReaders) CreateReader(_ context.Context, account signal.AccountID, name string, n credentials.NewReader) (
	credential.APIKey, string, error) {
	return f.key(account, name, n), secret, f.failure
}

func (f *fakeReaders) CreateReaders(_ context.Context, account signal.AccountID, prefix string, count int,
	n credentials.NewReader) ([]credential.APIKey, []string, error) {
	f.count = count
	var keys []credential.APIKey
	var secrets []string
	for i := range count {
		keys, secrets = append(keys, f.key(account, fmt.Sprintf("%s-%d", prefix, i+1), n)), append(secrets, secret)
	}
	return keys, secrets, f.failure
}

func (f *fakeReaders) ListReaders(_ context.Context, _ signal.AccountID, limit, offset int) ([]credential.APIKey, int, error) {
	return f.listed[min(offset, len(f.listed)):min(offset+limit, len(f.listed))], len(f.listed), f.failure
}

func (f *fakeReaders) RevokeReaders(_ context.Context, _ signal.AccountID, prefix string) (int, error) {
	f.prefix = prefix
	return 7, f.failure
}

func (f *fakeReaders) ReaderConnections(_ context.Context, readers []signal.KeyID) (map[signal.KeyID]int, error) {
	return map[signal.KeyID]int{readers[0]: 3}, f.failure
}

const asUser = "Authorization: Bearer jwt"

// aliases makes the fakes know a few spellings, a misspelt asset and an agent of the account.
func aliases(f *fakes) func(*config) {
	f.suggest = func(_ signal.AccountID, name string) []string {
		if name == "BTX" {
			return []string{"BTC"}
		}
		return nil
	}
	f.ownAgents.list = []signal.Agent{{ID: "my_agent", Account: accountID, Strategies: []string{"cross"}}}
	return func(c *config) { c.Assets = fakeAssets{} }
}

func TestAKeyWithAViewIsAReader(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f, aliases(f))
	for body, want := range map[string]string{
		`"view":{}`: `"view":{},"max_connections":5,`,
		`"view":{"assets":["GOLD"," standing desk ","gold"]},"max_connections":1000`: `"view":` +
			`{"assets":["XAUUSD","standing desk"]},` +
			`"max_connections":1000,`,
		`"view":{"agents":["my_agent","trading"],"strategies":["cross"]},"max_connections":1`: `"view":` +
			`{"agents":["my_agent","trading"],"strategies":["cross"]},"max_connections":1,`,
		`"view":{"agents":[]}`: `"view":{"agents":[]},"max_connections":5,` +
			`"notice":"This reader sees no signal, since agents is an empty list. Without agents it would see all of them."}`,
		`"view":{"assets":["<b>&</b>"]},"max_connections":null`: `"view":{"assets":["\u003cb\u003e\u0026\u003c/b\u003e"]},`,
		`"view":{},"scopes":["signals:read"]`:                   `"notice":"The proof of a signal shows a reader the id`,
	} {
		a := do(t, s, "POST", "/v1/auth/api-key", `{"name":"r",`+body+`}`, asUser)
		if a.Status != 201 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s\nwant %s", body, a.Status, a.Body, want)
		}
	}
	if f.readers.made.View == nil {
		t.Fatal("no reader was made")
	}
	f.readers.made = credentials.NewReader{}
	if a := do(t, s, "POST", "/v1/auth/api-key", `{"name":"r","view":null,"scopes":["agents:run"]}`, asUser); a.Status != 201 ||
		strings.Contains(a.Body, "view") || f.readers.made.View != nil {
		t.Errorf("view null: %d %s", a.Status, a.Body)
	}
}

func TestViewsThatAreNotValid(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f, aliases(f))
	many := strings.Repeat(`"x",`, 100) + `"x"`
	for body, want := range map[string]string{
		`"view":[]`:                        "body /view invalid_type",
		`"view":"all"`:                     "body /view invalid_type",
		`"view":{"agents":null}`:           "body /view/agents invalid_type",
		`"view":{"assets":"BTC"}`:          "body /view/assets invalid_type",
		`"view":{"assets":[1,"BTC"]}`:      "body /view/assets/0 invalid_type",
		`"view":{"assets":["BTC",""]}`:     "body /view/assets/1 too_short",
		`"view":{"assets":["BTX"]}`:        "body /view/assets/0 invalid_value",
		`"view":{"assets":["a\u0000b"]}`:   "body /view/assets/0 invalid_format",
		`"view":{"assets":[` + many + `]}`: "body /view/assets too_long",
		`"view":{"agents":[` + strings.ReplaceAll(many, "x", "trading") + `]}`: "body /view/agents too_long",
		`"view":{"agents":["tradin"]}`:                                         "body /view/agents/0 invalid_value",
		`"view":{"strategies":["crss"]}`:                                       "body /view/strategies/0 invalid_value",
		`"view":{"asset":["BTC"]}`:                                             "body /view/asset unknown_field",
		`"view":{},"scopes":["agents:run"]`:                                    "body /scopes/0 invalid_value",
		`"view":{},"scopes":[]`:                                                "body /scopes too_short",
		`"view":{},"max_connections":0`:                                        "body /max_connections out_of_range",
		`"view":{},"max_connections":1001`:                                     "body /max_connections out_of_range",
		`"max_connections":5`:                                                  "body /max_connections invalid_value",
		`"view":null,"max_connections":5`:                                      "body /max_connections invalid_value",
		`"view":{"agents":[],"agents":["seo"]}`:                                "body /view/agents duplicate",
		`"view":{},"view":{"agents":["trading"]}`:                              "body /view duplicate",
	} {
		a := do(t, s, "POST", "/v1/auth/api-key", `{"name":"r",`+body+`}`, asUser)
		if a.Status != 400 || !strings.Contains(fmt.Sprint(a.faults(t)), want) {
			t.Errorf("%.60s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
	for name, want := range map[string]string{
		`"agents":["my_agnt"]`:   "there is no such agent: did you mean my_agent? GET /v1/agents lists all",
		`"strategies":["crosd"]`: "there is no such strategy: did you mean cross? GET /v1/agents lists all",
		`"assets":["BTX"]`:       "did you mean BTC?",
	} {
		a := do(t, s, "POST", "/v1/auth/api-keys/batch", `{"name_prefix":"r","count":1,"view":{`+name+`}}`, asUser)
		if e := a.problem(t).Errors; a.Status != 400 || !strings.Contains(e[0].Detail, want) {
			t.Errorf("%s: %s, want %s", name, a.Body, want)
		}
	}
}

func TestReadersAreMadeByTheHundred(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f)
	a := do(t, s, "POST", "/v1/auth/api-keys/batch", `{"name_prefix":" customers ","count":2,"view":{"assets":["BTC"]},`+
		`"expires_in":60,"max_connections":2}`, asUser)
	one := `{"key_id":"` + string(keyID) + `","api_key":"` + secret + `","name":"customers-`
	want := `{"api_keys":[` + one + `1"},` + one + `2"}],"view":{"assets":["BTC"]},"max_connections":2,"notice":"The proof`
	if a.Status != 200 || !strings.HasPrefix(a.Body, want) || *f.readers.made.ExpiresIn != 60 || f.readers.count != 2 {
		t.Errorf("%d %s\nwant %s", a.Status, a.Body, want)
	}
	for body, want := range map[string][]string{
		`{}`: {"body /name_prefix required", "body /count required", "body /view required"},
		`{"name_prefix":"` + strings.Repeat("x", 81) + `","count":1,"view":{}}`: {"body /name_prefix too_long"},
		`{"name_prefix":"r","count":0,"view":{}}`:                               {"body /count out_of_range"},
		`{"name_prefix":"r","count":501,"view":{}}`:                             {"body /count out_of_range"},
		`{"name_prefix":"r","count":1.5,"view":{}}`:                             {"body /count invalid_type"},
		`{"name_prefix":"r","count":1,"view":null}`:                             {"body /view required"},
		`{"name_prefix":"r","count":1,"view":{},"scopes":["agents:read"]}`:      {"body /scopes unknown_field"},
		`{"name_prefix":"r","count":1,"view":{},"expires_in":0}`:                {"body /expires_in out_of_range"},
	} {
		a := do(t, s, "POST", "/v1/auth/api-keys/batch", body, asUser)
		if a.Status != 400 || fmt.Sprint(a.faults(t)) != fmt.Sprint(want) {
			t.Errorf("%.60s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
}

func TestReadersAreListedApart(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	for i := range 3 {
		f.readers.listed = append(f.readers.listed, credential.APIKey{ID: keyID, Name: fmt.Sprint("r-", i), Prefix: secret[:8],
			Scopes: signal.ReaderScopes, CreatedAt: morning, LastUsedAt: morning.Add(-time.Minute), MaxConnections: 5,
			View: signal.NewView(signal.NamesOf("seo"), signal.Names{}, signal.NamesOf())})
	}
	s := newServer(t, f)
	a := do(t, s, "GET", "/v1/auth/api-keys?view=true&limit=1&offset=1", "", asUser)
	want := `{"api_keys":[{"key_id":"` + string(keyID) + `","name":"r-1","scopes":["agents:read","signals:read"],` +
		`"created_at":"2026-11-21T09:30:00.000Z","expires_at":null,"prefix":"ask_0123",` +
		`"last_used_at":"2026-11-21T09:29:00.000Z","status":"active",` +
		`"view":{"agents":["seo"],"strategies":[]},"max_connections":5,"connections":3}],"total":3}`
	if a.Status != 200 || a.Body != want {
		t.Errorf("%d %s\nwant %s", a.Status, a.Body, want)
	}
	for _, query := range []string{"", "?view=false", "?view="} {
		if a := do(t, s, "GET", "/v1/auth/api-keys"+query, "", asUser); a.Body != `{"api_keys":[],"total":0}` {
			t.Errorf("%q: %s", query, a.Body)
		}
	}
	if a := do(t, s, "GET", "/v1/auth/api-keys?view=all", "", asUser); fmt.Sprint(a.faults(t)) != "[query view invalid_value]" {
		t.Errorf("view=all: %s", a.Body)
	}
}

func TestReadersAreRevokedByPrefix(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f)
	if a := do(t, s, "DELETE", "/v1/auth/api-keys?name_prefix=a%20*", "", asUser); a.Status != 200 ||
		a.Body != `{"revoked":7}` || f.readers.prefix != "a *" {
		t.Errorf("%d %s, of %q", a.Status, a.Body, f.readers.prefix)
	}
	for query, want := range map[string]string{"": "required", "?name_prefix=": "too_short", "?name_prefix=ab": "too_short",
		"?name_prefix=" + strings.Repeat("x", 101): "too_long", "?name_prefix=abc&all=1": "unknown_field"} {
		a := do(t, s, "DELETE", "/v1/auth/api-keys"+query, "", asUser)
		if a.Status != 400 || !strings.Contains(fmt.Sprint(a.faults(t)), want) {
			t.Errorf("%q: %d %s, want %s", query, a.Status, a.Body, want)
		}
	}
}
