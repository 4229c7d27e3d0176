package http

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// FuzzDecodeObject: what the reader finds encoding/json finds too, and an answer with all
// faults is JSON.
func FuzzDecodeObject(f *testing.F) {
	for _, seed := range []string{`{"asset":"BTC","strategy":"momentum","parameters":{"keywords":["a","b"],"region":null}}`, `{"a":{"b":[1,2.5e-3,"\ud83d\ude00"]},"a":2}`,
		`{"\u0061":"\\\"","":0}`, `[]`, `{"a":"`, "{\"\xff\":1}", `"\ud800"`, strings.Repeat("[", 40)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var faults faults
		o := decodeObject(data, &faults)
		if o == nil {
			return
		}
		compareMembers(t, data, o, &faults)
		readAny(o)
		if faults.err() != nil {
			p := newProblem(faults.err())
			if doc := p.append(nil, "/v1/x", "r"); !json.Valid(doc) || !utf8.Valid(doc) {
				t.Fatalf("the answer is no JSON: %q", doc)
			}
		}
	})
}

// compareMembers holds what the decoder found against encoding/json.
func compareMembers(t *testing.T, data []byte, o *object, f *faults) {
	var want map[string]json.RawMessage
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("read %q: %v", data, err)
	}
	if len(o.members) != len(want) && len(o.members) < maxMembers {
		t.Fatalf("%q has %d members, not %d", data, len(want), len(o.members))
	}
	for _, m := range o.members {
		value, ok := want[string(m.name)]
		if !ok {
			t.Fatalf("%q has no member %q", data, m.name)
		}
		if !f.any() && !bytes.Equal(value, m.value) { // of two, encoding/json takes the last
			t.Fatalf("%q: member %q is %s, not %s", data, m.name, value, m.value)
		}
	}
}

// readAny reads members as anything.
func readAny(o *object) {
	for _, m := range o.members {
		name := string(m.name)
		o.text(name)
		o.boolean(name)
		o.integer(name, 0, 100)
		o.texts(name, 3, "must be a list", func(string) (code, detail string) { return "", "" })
		if inner, ok := o.object(name); ok {
			inner.close()
		}
	}
	o.require("required", "must be given")
	o.close()
}

func TestSince(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	valid := map[string]time.Time{
		"2026-11-21T09:30:00Z":             at,
		"2026-11-21T09:30:00.000Z":         at,
		"2026-11-21t09:30:00z":             at,
		"2026-11-21T09:30:00":              at,
		"2026-11-21T09:30:00.25":           at.Add(250 * time.Millisecond),
		"2026-11-21T10:30:00%2B01:00":      at,
		"2026-11-21T10:30:00+01:00":        at,
		"2026-11-21T02:00:00-07:30":        at,
		"2026-11-21":                       at.Truncate(24 * time.Hour),
		"2026-11-21T09:30:00.123456789Z":   at.Add(123456789),
		"2026-11-21T09:30:00.1234567890Z":  at.Add(123456789),
		"0001-01-01T00:00:00Z":             {},
		"2026-11-21T09%3A30%3A00.5%2B0000": {}, // refused
	}
	for text, want := range valid {
		var f faults
		q := newQuery("since="+text, &f, "since")
		got := q.since()
		if refused := strings.HasSuffix(text, "0000"); !got.Equal(want) || f.any() != refused {
			t.Errorf("%s: got %v, faults %v", text, got, f.list)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"limit=5&offset=2&since=2026-11-21T09:30:00Z", "limit=%35&limit=5", "min_confidence=1e-3&x=%zz", "asset=%ff;a=b", "since=2026-11-21 09:30"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var f faults
		q := newQuery(raw, &f, "limit", "offset", "since", "asset", "min_confidence")
		p := q.page()
		since, asset, least := q.since(), q.text("asset", maxAssetLength), q.fraction("min_confidence")
		if p.Limit < 1 || p.Limit > maxLimit || p.Offset < 0 || least < 0 || least > 1 || !utf8.ValidString(asset) || since.Location() != time.UTC {
			t.Fatalf("%q: %+v %v %q %v", raw, p, since, asset, least)
		}
		if list := appendList(nil, "x", nil, appendListing, p, 3); !json.Valid(list) {
			t.Fatalf("%q: %s", raw, list)
		}
	})
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for value, want := range map[string]string{
		"00-" + id + "-b7ad6b7169203331-01":                        id,
		"01-" + id + "-b7ad6b7169203331-01-more":                   id,
		"ff-" + id + "-b7ad6b7169203331-01":                        "",
		"00-" + strings.ToUpper(id) + "-b7ad6b7169203331-01":       "",
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01":   "",
		"00-" + id + "_b7ad6b7169203331-01":                        "",
		"00-" + strings.Repeat("\n", 32) + "-b7ad6b7169203331-01 ": "",
		"nonsense": "",
		"":         "",
	} {
		r := &http.Request{Header: http.Header{"Traceparent": {value}}}
		if got := traceID(r); got != want {
			t.Errorf("%q: got %q", value, got)
		}
	}
}

func TestDeprecatedVersions(t *testing.T) {
	t.Parallel()
	old := newVersion("2026-05-01", "deprecated")
	old.DeprecatedAt, old.SunsetAt = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	s := &Server{versions: []apiVersion{newVersion("2026-11-01", "current"), old}}
	h := http.Header{}
	c := &call{ResponseWriter: headerOnly(h), r: &http.Request{Header: http.Header{versionHeader: {"2026-05-01"}}}, server: s}
	s.selectVersion(c)
	want := http.Header{versionHeader: {"2026-05-01"}, "Deprecation": {"@1793491200"}, "Sunset": {"Tue, 01 Jun 2027 00:00:00 GMT"}}
	if d := cmp.Diff(want, h); d != "" || c.faults.any() {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

// headerOnly is a ResponseWriter for its headers.
type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h headerOnly) WriteHeader(int)             {}

// TestEncodersWriteWhatEncodingJSONWould holds the hand-written encoders against
// structs.
func TestEncodersWriteWhatEncodingJSONWould(t *testing.T) {
	t.Parallel()
	type listing struct {
		SignalID   signal.SignalID  `json:"signal_id"`
		AgentID    signal.AgentID   `json:"agent_id"`
		Asset      string           `json:"asset"`
		Strategy   string           `json:"strategy"`
		Direction  signal.Direction `json:"direction"`
		Confidence float64          `json:"confidence"`
		EntryPrice *float64         `json:"entry_price"`
		CreatedAt  string           `json:"created_at"`
	}
	at := time.Date(2026, 11, 21, 9, 30, 0, 7_000_000, time.FixedZone("", 3600))
	for _, asset := range []string{"BTC", `quote " backslash \`, "tab\tnull\x00del\x7f", "élan 😀 \u2028", "bad \xff\xc3 bytes", "<a href='x'>&"} {
		for _, price := range []float64{64250.125, 0.00000001, 1e15, 1.1, 100, 0} {
			s := &signal.Signal{ID: "sig_1", Agent: "trading", Asset: asset, Strategy: "momentum", Direction: signal.Short, Confidence: 0.43724999,
				Levels: &signal.Levels{Entry: price}, Metadata: json.RawMessage(`{}`), CreatedAt: at}
			l := s.Listing()
			var got, want any
			if err := json.Unmarshal(appendListing(nil, &l), &got); err != nil {
				t.Fatalf("%q: %v", asset, err)
			}
			text, err := json.Marshal(listing{"sig_1", "trading", asset, "momentum", signal.Short, 0.4372, &price, "2026-11-21T08:30:00.007Z"})
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("listing (-want +got):\n%s", d)
			}
			var whole map[string]any
			if err := json.Unmarshal(appendSignal(nil, s), &whole); err != nil {
				t.Fatalf("%q: %v", asset, err)
			}
			for name, value := range want.(map[string]any) {
				if d := cmp.Diff(value, whole[name]); d != "" {
					t.Errorf("signal %s (-want +got):\n%s", name, d)
				}
			}
			if len(whole) != 11 {
				t.Errorf("the signal has %d members", len(whole))
			}
		}
	}
}
