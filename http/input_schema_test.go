package http_test

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// schemaOf returns the schema of the runs of an agent, as the server answers it.
func schemaOf(tb testing.TB, s *signalhttp.Server, id signal.AgentID) *jsonschema.Schema {
	tb.Helper()
	a := do(tb, s, "GET", "/v1/agents/"+string(id), "")
	var details struct {
		Input json.RawMessage `json:"input_schema"`
	}
	if err := json.Unmarshal([]byte(a.Body), &details); err != nil || a.Status != 200 {
		tb.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(details.Input)))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("run.json", doc); err != nil {
		tb.Fatal(err)
	}
	compiled, err := c.Compile("run.json")
	if err != nil {
		tb.Fatalf("the schema of %s is not valid: %v", id, err)
	}
	return compiled
}

// fits returns why a body does not match the schema, or nil.
func fits(x *jsonschema.Schema, body string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return x.Validate(doc)
}

// runBodies are bodies of runs; which agents accept them is left to the comparison.
func runBodies() []string {
	bodies := []string{`{}`, `[]`, `"x"`, `null`, `{"asset":"oil"}`, `{"strategy":"momentum"}`}
	add := func(asset, strategy, more string) {
		bodies = append(bodies, `{"asset":`+asset+`,"strategy":`+strategy+more+`}`)
	}
	all := []string{`"x"`, `""`, `null`, `1`, `"Momentum"`}
	for _, a := range signal.Agents() {
		for _, strategy := range a.Strategies {
			all = append(all, `"`+strategy+`"`)
		}
	}
	for _, strategy := range all {
		for _, asset := range []string{`"oil"`, `"corn"`, `"wheat"`, `"natural_gas"`, `"BTC"`, `"standing desk"`} {
			add(asset, strategy, "")
		}
	}
	long := strings.Repeat("ü", 64)
	assets := []string{`""`, `" BTC\t"`, `"` + long + `"`, `"` + long + `x"`, `"\u3000a\u2028"`, `"a\u00a0b"`, `"x"`,
		`null`, `7`, `["BTC"]`}
	phrase := strings.Repeat("é", 100)
	phrases := []string{`[]`, `["a"]`, `["` + phrase + `"]`, `["` + phrase + `e"]`, `[""]`, `[1]`, `"a"`, `[" a "]`,
		`[` + strings.Repeat(`"a",`, 19) + `"a"]`,
		`[` + strings.Repeat(`"a",`, 20) + `"a"]`}
	for _, strategy := range []string{`"momentum"`, `"energy_demand"`, `"blog_post"`} {
		for _, asset := range assets {
			add(asset, strategy, "")
		}
		for _, more := range []string{`"timeframe":"5m"`, `"timeframe":null`, `"timeframe":"2h"`, `"timeframe":""`,
			`"timeframe":5`, `"risk_level":"low"`, `"risk_level":null`, `"risk_level":"none"`, `"async":true`,
			`"async":null`, `"async":"true"`, `"async":1`, `"unknown":1`, `"parameters":{}`, `"parameters":null`,
			`"parameters":[]`, `"parameters":{"x":1}`, `"parameters":{"region":"us"}`, `"parameters":{"region":"mars"}`,
			`"parameters":{"region":""}`, `"parameters":{"locale":"en-US"}`, `"parameters":{"locale":""}`,
			`"parameters":{"locale":"e"}`, `"parameters":{"locale":"english"}`, `"parameters":{"locale":"en_US"}`,
			`"parameters":{"locale":"en-` + strings.Repeat("abcdefgh-", 4) + `a"}`, `"parameters":{"region":1}`} {
			add(`"oil"`, strategy, ","+more)
		}
		for _, p := range phrases {
			add(`"oil"`, strategy, `,"parameters":{"keywords":`+p+`}`)
			add(`"oil"`, strategy, `,"parameters":{"features":`+p+`}`)
		}
	}
	return bodies
}

// unlikeText are the faults of texts that schemas leave out.
var unlikeText = regexp.MustCompile(`must not be empty|must not have control characters`)

// runOn sends a run without comparing it with the description, which has no white space around
// an asset.
func runOn(s *signalhttp.Server, id signal.AgentID, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/v1/agents/"+string(id)+"/run", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestInputSchemasAgreeWithRuns: a run accepts a body if and only if the schema of its agent does.
func TestInputSchemasAgreeWithRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, a := range signal.Agents() {
		x := schemaOf(t, s, a.ID)
		accepted := 0
		for _, body := range runBodies() {
			got, want := fits(x, body), runOn(s, a.ID, body)
			if want.Code == 200 {
				accepted++
			}
			if (got == nil) != (want.Code == 200) || want.Code != 200 && want.Code != 400 {
				t.Errorf("%s: %.200s: answered %d, by the schema: %v\n%s", a.ID, body, want.Code, got, want.Body)
			}
		}
		if accepted < 10 {
			t.Errorf("%s: only %d bodies are accepted", a.ID, accepted)
		}
	}
}

// TestInputSchemasAreNarrowerInSpellings, which forms do not need.
func TestInputSchemasAreNarrowerInSpellings(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for path, body := range map[signal.AgentID]string{
		"weather": `{"asset":"Oil","strategy":"energy_demand"}`,
		"trading": `{"asset":"BTC","strategy":"momentum","parameters":{"region":null}}`,
	} {
		if a := do(t, s, "POST", "/v1/agents/"+string(path)+"/run", body); a.Status != 200 {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
		if fits(schemaOf(t, s, path), body) == nil {
			t.Errorf("%s is in the schema", body)
		}
	}
}

// TestTheSchemaOfAnAssetIsReadable: people and models read it. White space and control characters, which it
// leaves out, are refused by the run, with their fault.
func TestTheSchemaOfAnAssetIsReadable(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for id, want := range map[signal.AgentID]string{
		"trading": `{"description":"An asset by any of its names: GET /v1/assets lists all.","type":"string",` +
			`"examples":["BTC","EUR/USD","AAPL"],"minLength":1,"maxLength":64}`,
		"seo": `{"description":"The subject of the text.","type":"string","examples":["standing desk"],"minLength":1,` +
			`"maxLength":64}`,
	} {
		if a := do(t, s, "GET", "/v1/agents/"+string(id), ""); !strings.Contains(a.Body, `"asset":`+want) {
			t.Errorf("%s: %s", id, a.Body)
		}
	}
	for _, asset := range []string{`"  "`, `"a\u0000b"`, `"a\u0085b"`} {
		body := `{"asset":` + asset + `,"strategy":"momentum"}`
		if w := runOn(s, "trading", body); w.Code != 400 || fits(schemaOf(t, s, "trading"), body) != nil {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// FuzzInputSchema: what a schema allows, a run accepts, but for texts that are blank or have control characters.
func FuzzInputSchema(f *testing.F) {
	for _, body := range runBodies() {
		f.Add(body)
	}
	h := newServer(f, &fakes{})
	schemas := map[signal.AgentID]*jsonschema.Schema{}
	for _, a := range signal.Agents() {
		schemas[a.ID] = schemaOf(f, h, a.ID)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if !utf8.ValidString(body) {
			return // the decoder of the test replaces what is not UTF-8
		}
		for id, x := range schemas {
			if fits(x, body) != nil {
				continue
			}
			// The decoder of the test merges members that are given twice.
			w := runOn(h, id, body)
			if w.Code != 200 && !unlikeText.MatchString(w.Body.String()) && !strings.Contains(w.Body.String(), "more than once") {
				t.Errorf("%s: %q: %d %s", id, body, w.Code, w.Body)
			}
		}
	})
}
