package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/client"
)

func of(x float64) *float64 { return &x }

// Prices are written as traders write them, and never so that stop and entry look the same.
func TestPricesAsTradersWriteThem(t *testing.T) {
	t.Parallel()
	var f formatter
	for _, row := range []struct {
		asset string
		x     float64
		among []*float64
		want  string
	}{
		{"BTC", 90411.59, nil, "90411.59"},
		{"btcusdt", 90303.317, nil, "90303.32"},
		{"SOL", 160, nil, "160.00"},
		{"EURUSD", 1.1388982, nil, "1.13890"},
		{"EUR/USD", 1.1, nil, "1.10000"},
		{"USDJPY", 150.12345, nil, "150.123"},
		{"XAUUSD", 2699.1349, nil, "2699.13"},
		{"natural_gas", 2.4203616, nil, "2.420"},
		{"wheat", 560.25, nil, "560.25"},
		{"AAPL", 9.999, nil, "10.00"},
		{"DOGE", .0812345, nil, "0.08123"},
		{"PEPE", .0000123456, nil, "0.00001235"},
		{"XRP", 2.34567, nil, "2.3457"},
		{"XRP", .1, nil, "0.1000"},
		{"XRP", .01, nil, "0.01000"},
		{"BTC", -5, nil, "-5.0000"},
		{"BTC", 0, nil, "0.00"},
		{"BTC", 90411.591, []*float64{of(90411.591), of(90411.594), nil, of(90411.591)}, "90411.591"},
		{"BTC", 1, []*float64{of(1), of(1 + 1e-14)}, "1.0000000000"},
		{"BTC", 64250.125, nil, "64250.13"},
		{"AAPL", 1.005, nil, "1.01"},                                      // in binary a little less
		{"SOL", 95.123456, []*float64{of(101), of(95), of(110)}, "95.12"}, // as the entry
		{"SOL", 100.5, []*float64{of(99.5), of(98), of(103)}, "100.5000"},
		{"ACME", 12.3456, []*float64{nil, nil, nil}, "12.3456"},
	} {
		if got := f.cell(price{&row.x, row.asset, row.among}); got.text != row.want || !got.right {
			t.Errorf("%s at %v: %q, want %q", row.asset, row.x, got.text, row.want)
		}
	}
	if got := f.cell(price{}); got.text != missing {
		t.Errorf("no price is %q", got.text)
	}
}

// The console writes prices and shares as the commands do: its own tests hold it to the texts in this file.
func TestConsoleHasTheFormatsOfCommands(t *testing.T) {
	t.Parallel()
	type example struct {
		Asset  string     `json:"asset"`
		Class  *string    `json:"class"`
		Value  float64    `json:"value"`
		Levels []*float64 `json:"levels"`
		Text   string     `json:"text"`
	}
	var rows []string
	add := func(asset string, value float64, levels ...*float64) {
		e := example{asset, nil, value, append([]*float64{}, levels...), assets.PriceText(asset, value, levels...)}
		if class := assets.ClassOf(asset); class != "" {
			e.Class = &class
		}
		text, err := json.Marshal(e)
		commandtest.Must(t, err)
		rows = append(rows, "    "+string(text))
	}
	for _, a := range append(assets.Known, assets.Spec{Symbol: "ACME", Price: 12.5}) {
		entry, stop, target := a.Price*1.0123456, a.Price*.99, a.Price*1.05
		add(a.Symbol, entry)
		add(a.Symbol, stop, &entry, &stop, &target)
	}
	for _, asset := range []string{"BTC", "AAPL", "EURUSD", "XAUUSD", "corn", "ACME"} {
		for _, x := range []float64{0, 5e-324, 1.25e-11, 1e-10, 4.99995e-8, .0001, .001, .01, .099996, .1, .125, .99996, 1, 1.005,
			1.015, 9.9996, 10, 19.99996, 20, 99.995, 99.999999, 100, 1e3, 64250.125, 1e6 + .005,
			123456789.987654321, 1e15 + .5, 1e21,
			1.7976931348623157e308} {
			add(asset, x)
		}
		add(asset, 1, of(1), of(1.000004), nil)
		add(asset, 90411.591, of(90411.591), of(90411.594))
		add(asset, .5, of(1), of(1+1e-14))
		add(asset, 7, nil, of(1000), of(1000.001))
	}
	got := fmt.Sprintf("{\n  \"min_share\": %d,\n  \"prices\": [\n%s\n  ]\n}\n", minShare, strings.Join(rows, ",\n"))
	const file = "../../../http/console/src/format.json"
	if os.Getenv("TEST_FORMAT") != "" {
		commandtest.Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	commandtest.Must(t, err)
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is written by TEST_FORMAT=1 go test -run '^TestConsoleHas' ./cmd/agentsignal/terminal, "+
			"and then by make console: %s",
			file, d)
	}
}

func TestListsInEachForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 1e6, time.UTC)
	items := []*client.Signal{
		{ID: "sig_1", Asset: "BTC", Direction: "long", Confidence: .4198, Entry: of(90411.59), R: of(-1), CreatedAt: at},
		{ID: "sig_22", Asset: "=1+1\x1b[2J", Direction: "short", Confidence: 1, Entry: of(5), CreatedAt: at},
	}
	for i, s := range items {
		s.JSON = json.RawMessage(`{"signal_id":"` + s.ID + `","n":` + strings.Repeat("9", 20+i) + `}`)
	}
	columns := []column[client.Signal]{signalColumns[0], signalColumns[1], signalColumns[2], signalColumns[4], signalColumns[5],
		signalColumns[7], signalColumns[12]}
	for name, row := range map[string]struct {
		flags outputFlags
		want  string
	}{
		"text": {outputFlags{form: formText, utc: true}, `
created at           signal id  asset     direction  confidence  entry price        r
2026-11-21 09:30:00  sig_1      BTC       long           42.0 %     90411.59  -1.00 R
2026-11-21 09:30:00  sig_22     =1+1�[2J  short         100.0 %       5.0000        -
`},
		"csv": {outputFlags{form: formCSV}, `
created_at,signal_id,asset,direction,confidence,entry_price,r
2026-11-21T09:30:00.001Z,sig_1,BTC,long,0.4198,90411.59,-1
2026-11-21T09:30:00.001Z,sig_22,'=1+1` + "\x1b" + `[2J,short,1,5,
`},
		"json": {outputFlags{form: formJSON}, `
[
  {
    "signal_id": "sig_1",
    "n": 99999999999999999999
  },
  {
    "signal_id": "sig_22",
    "n": 999999999999999999999
  }
]
`},
		"jq": {outputFlags{form: formText, jq: ".[] | .signal_id, .n"}, `
sig_1
99999999999999999999
sig_22
999999999999999999999
`},
	} {
		var out bytes.Buffer
		p, err := row.flags.printer(&out)
		if err == nil {
			err = list(p, "items", columns, items)
		}
		want := strings.TrimPrefix(row.want, "\n")
		if diff := cmp.Diff(want, out.String()); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for want, flags := range map[string]outputFlags{"must be text, json or csv": {form: "xml"},
		`--jq: the program is not complete: after "map(.r" something is missing`: {form: formText, jq: "map(.r"},
		`--jq: unexpected token "b" at the end of ".a b"`:                        {form: formText, jq: ".a b | .c"},
		`--jq: unterminated string literal at the end of "\"abc"`:                {form: formText, jq: `"abc`},
		"--jq makes JSON": {form: formCSV, jq: "."}} {
		if _, err := flags.printer(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", flags, err)
		}
	}
	flags := outputFlags{form: formText, jq: ".[0].n + {}"}
	p, err := flags.printer(&bytes.Buffer{})
	if err == nil {
		err = list(p, "items", columns, items)
	}
	if err == nil || !strings.Contains(err.Error(), "--jq: ") {
		t.Errorf("a program that fails: %v", err)
	}
	var out bytes.Buffer
	coloured := &printer{out: &out, form: formText, format: formatter{colours: true}}
	if err := list(coloured, "items", columns[3:4], items[:1]); err != nil ||
		out.String() != "\x1b[2mdirection\x1b[0m\n\x1b[32mlong\x1b[0m\n" {
		t.Errorf("on a terminal: %q, %v", out.String(), err)
	}
	if command.ShowsColours(&out) {
		t.Error("a buffer is no terminal")
	}
}

func TestTimesThatPeopleGive(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	berlin := time.FixedZone("", 3600)
	for text, want := range map[string]string{
		"2026-11-20":                "2026-11-19T23:00:00Z",
		"2026-11-20T10:00":          "2026-11-20T09:00:00Z",
		"2026-11-20 10:00:05":       "2026-11-20T09:00:05Z",
		"2026-11-20T10:00:00Z":      "2026-11-20T10:00:00Z",
		"2026-11-20T10:00:00.5Z":    "2026-11-20T10:00:00.5Z",
		"2026-11-20T10:00:00+05:00": "2026-11-20T05:00:00Z",
		"90m":                       "2026-11-21T08:00:00Z",
		"3d":                        "2026-11-18T09:30:00Z",
		"0.5d":                      "2026-11-20T21:30:00Z",
	} {
		if got, err := parseSince(text, now, berlin); err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-3d", "-1h", "1e300d", "NaNd", "2026-13-01", "d"} {
		if got, err := parseSince(text, now, berlin); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func FuzzSince(f *testing.F) {
	for _, seed := range []string{"2026-11-20", "3d", "90m", "1e300d", "-1d", "9999999999h"} {
		f.Add(seed)
	}
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseSince(text, now, time.UTC); err == nil && got.IsZero() && !strings.HasPrefix(text, "0001") {
			t.Errorf("%q is read as %v", text, got)
		}
	})
}

func TestParametersOfARun(t *testing.T) {
	t.Parallel()
	got, err := parseParameters([]string{"region=us", `keywords=["oak", "desk"]`, "features=quiet motor", "features=a=b",
		"features=", "n=[1]", "n=2"})
	want := map[string]any{"region": "us", "keywords": []any{"oak", "desk"}, "features": []any{"quiet motor", "a=b", ""},
		"n": []any{1., "2"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, text := range []string{"region", "=us", " =x", "k=[1", ""} {
		if got, err := parseParameters([]string{text}); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func FuzzParameters(f *testing.F) {
	f.Add("region=us", "region=eu")
	f.Add(`k={"a":[1]}`, "k=")
	f.Fuzz(func(t *testing.T, a, b string) {
		all, err := parseParameters([]string{a, b})
		if err == nil && len(all) == 0 {
			t.Errorf("%q and %q are no parameter", a, b)
		}
		if err == nil {
			if _, err := json.Marshal(all); err != nil {
				t.Errorf("%q and %q cannot be sent: %v", a, b, err)
			}
		}
	})
}
