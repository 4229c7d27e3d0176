package asked

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestQuestion(t *testing.T) {
	t.Parallel()
	agent := newAgentOf("acc_1", "mine", url)
	q := requestOf(agent)
	want := `{"run_id":"run_1","agent_id":"mine","asset":"BTC","strategy":"cross","timeframe":"1h","risk_level":"medium",` +
		`"parameters":{"keywords":["a \"b\""]},"price":101.25,"bars":[` +
		`{"open_time":"1970-01-01T00:00:00.000Z","open":100,"high":102.5,"low":99,"close":101,"volume":0},` +
		`{"open_time":"1970-01-01T01:00:00.000Z","open":100,"high":102.5,"low":99,"close":101,"volume":1}]}`
	if diff := cmp.Diff(want, string(appendQuestion(nil, "run_1", q, snapshot(2), &barTexts{}))); diff != "" {
		t.Errorf("question (-want +got):\n%s", diff)
	}
	q.Parameters = signal.Parameters{}
	got := string(appendQuestion(nil, "run_1", q, nil, &barTexts{}))
	if !strings.HasSuffix(got, `"parameters":{},"price":null,"bars":[]}`) {
		t.Errorf("without prices it is %s", got)
	}
	var m struct{ Bars []struct{ Volume int } }
	if err := json.Unmarshal(appendQuestion(nil, "run_1", q, snapshot(1500), &barTexts{}), &m); err != nil ||
		len(m.Bars) != sentBars || m.Bars[0].Volume != 1200 || m.Bars[299].Volume != 1499 {
		t.Errorf("of many bars it has %d, %v", len(m.Bars), err)
	}
}

// The bars of a series are written once, until others are its newest.
func TestBarsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	var texts barTexts
	q, other := requestOf(newAgentOf("acc_1", "mine", url)), requestOf(newAgentOf("acc_1", "mine", url))
	other.Asset = "ETH"
	first, second := snapshot(400), snapshot(400)
	second.Bars[399].Close = 101.5
	fewer := *first
	fewer.Bars = first.Bars[:399]
	for name, seen := range map[string]*market.Snapshot{"first": first, "second": second, "fewer": &fewer, "few": snapshot(7)} {
		for _, q := range []*signal.RunRequest{q, other, q} {
			want := string(appendQuestion(nil, "run_1", q, seen, &barTexts{}))
			if got := string(appendQuestion(nil, "run_1", q, seen, &texts)); got != want {
				t.Errorf("%s of %s is not as without kept texts", name, q.Asset)
			}
		}
	}
	key := series{q.Asset, q.Timeframe}
	written := &texts.of(key, first.Bars)[0]
	if &texts.of(key, first.Bars)[0] != written {
		t.Error("the same bars are written again")
	}
	for i := range 2 * maxTexts {
		texts.of(series{asset: strconv.Itoa(i)}, first.Bars[:1])
	}
	if n := len(texts.texts); n > maxTexts {
		t.Errorf("%d texts are kept", n)
	}
}

func TestReplyWithoutASignal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxReason)
	for body, want := range map[string]struct {
		reason string
		null   bool
		err    string // a part of it
	}{
		`{"signal":null}`: {null: true},
		` {"signal" : null, "reason": "no cross"} `:    {reason: "no cross", null: true},
		`{"reason":"a \"b\" \u00e4","signal":null}`:    {reason: `a "b" ä`, null: true},
		`{"signal":null,"reason":null}`:                {null: true},
		`{"signal":null,"reason":""}`:                  {null: true},
		`{"signal":null,"reason":"` + long + `"}`:      {reason: long, null: true},
		`{"signal":null,"reason":"` + long + `x"}`:     {err: "at most 500"},
		`{"signal":null,"reason":"a\nb"}`:              {err: "control"},
		`{"signal":null,"reason":"\u0085"}`:            {err: "control"},
		`{"signal":null,"reason":7}`:                   {err: "a string"},
		`{"signal":null,"direction":"long"}`:           {err: "only be a reason"},
		`{"signal":null,"signal":null}`:                {err: "twice"},
		`{"signal":{"direction":"long"}}`:              {err: "must be null"},
		`{"reason":"no"}`:                              {},
		`{"direction":"long"}`:                         {},
		`{}`:                                           {},
		`[]`:                                           {err: "not a JSON object"},
		`null`:                                         {err: "not a JSON object"},
		``:                                             {err: "unexpected end"},
		`{"signal":null`:                               {err: "unexpected end"},
		`{"signal":null} {}`:                           {err: "text after"},
		"{\"signal\":null,\"reason\":\"\xff\"}":        {err: "UTF-8"},
		`{"signal":null,"reason":"\ud800"}`:            {err: "surrogate"},
		`{"signal":null,"reason":"x","re\u0061son":1}`: {err: "twice"},
	} {
		reason, null, err := readNull([]byte(body))
		failed := err != nil && strings.Contains(err.Error(), want.err) && want.err != ""
		if reason != want.reason || null != want.null || failed != (want.err != "") || err != nil != failed {
			t.Errorf("%.60q is %.60q, %v, %v", body, reason, null, err)
		}
	}
}

func FuzzReadNull(f *testing.F) {
	for _, s := range []string{`{"signal":null}`, `{"signal":null,"reason":"no cross"}`, `{"signal":1}`, `{}`, `[`,
		`{"signal":null,"reason":"\u0000"}`, "{\"signal\":null,\"reason\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reason, null, err := readNull(body)
		if null && err != nil || !null && reason != "" {
			t.Fatalf("%q is %q, %v, %v", body, reason, null, err)
		}
		if !null {
			return
		}
		if strings.ContainsAny(reason, "\x00\n\r\t\x1b\x7f\u0085") || !utf8.ValidString(reason) ||
			utf8.RuneCountInString(reason) > maxReason {
			t.Errorf("%q gives the reason %q", body, reason)
		}
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatalf("%q is accepted: %v", body, err)
		}
		if given, ok := m["signal"]; !ok || given != nil {
			t.Errorf("%q is said to have no signal", body)
		}
		if text, _ := m["reason"].(string); text != reason {
			t.Errorf("%q gives the reason %q", body, reason)
		}
	})
}
