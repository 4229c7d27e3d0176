package http

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// FuzzProblem: the error document of any body and query is JSON, and so is a page of a list.
func FuzzProblem(f *testing.F) {
	f.Add([]byte("{\"\xff\":1,\"a\":1,\"a\":2}"), "limit=%35&limit=5")
	f.Add([]byte(`["\ud800"]`), "offset=00000000000000000000000000000000000001&x=%zz")
	f.Fuzz(func(t *testing.T, body []byte, raw string) {
		var faults request.Faults
		if o := request.ReadObject(body, &faults); o != nil {
			o.Close()
		}
		p := request.NewQuery(raw, &faults, "limit", "offset").Page()
		if faults.Any() {
			problem := newProblem(faults.Err())
			if doc := problem.document("/v1/x", "r"); !json.Valid(doc) || !utf8.Valid(doc) {
				t.Fatalf("the answer is not JSON: %q", doc)
			}
		}
		if list := appendList(nil, "x", nil, appendListing, p, 3); !json.Valid(list) {
			t.Fatalf("%q: %s", raw, list)
		}
	})
}

// taggedListing is a listing as encoding/json would write it.
type taggedListing struct {
	SignalID   signal.SignalID  `json:"signal_id"`
	AgentID    signal.AgentID   `json:"agent_id"`
	Asset      string           `json:"asset"`
	Strategy   string           `json:"strategy"`
	Direction  signal.Direction `json:"direction"`
	Confidence float64          `json:"confidence"`
	EntryPrice *float64         `json:"entry_price"`
	CreatedAt  string           `json:"created_at"`
}

// TestEncodersWriteWhatEncodingJSONWould compares the hand-written encoders with structs.
func TestEncodersWriteWhatEncodingJSONWould(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 7_000_000, time.FixedZone("", 3600))
	for _, asset := range []string{"BTC", `quote " backslash \`, "tab\tnull\x00del\x7f", "élan 😀 \u2028",
		"bad \xff\xc3 bytes", "<a href='x'>&"} {
		for _, price := range []float64{64250.125, 0.00000001, 1e15, 1.1, 100, 0} {
			s := &signal.Signal{ID: "sig_1", Agent: "trading", Asset: asset, Strategy: "momentum",
				Direction: signal.Short, Confidence: 0.43724999,
				Levels: &signal.Levels{Entry: price}, Metadata: json.RawMessage(`{}`), CreatedAt: at}
			l := s.Listing()
			var got, want any
			if err := json.Unmarshal(appendListing(nil, &l), &got); err != nil {
				t.Fatalf("%q: %v", asset, err)
			}
			text, err := json.Marshal(taggedListing{"sig_1", "trading", asset, "momentum", signal.Short, 0.4372, &price,
				"2026-11-21T08:30:00.007Z"})
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

// BenchmarkJSON compares the reader of bodies and the encoder of lists with encoding/json:
// decision 32 has the figures.
func BenchmarkJSON(b *testing.B) {
	price := 64250.125
	listings := make([]signal.Listing, 25)
	for i := range listings {
		listings[i] = signal.Listing{ID: "sig_01M7YQ1WE0AE67Z5NHCJZHQ5XV", Agent: "trading", Asset: "BTC",
			Strategy: "momentum", Direction: signal.Long, Confidence: 0.4372, Entry: &price, CreatedAt: time.Now()}
	}
	buffer := make([]byte, 0, 16<<10)
	body := []byte(`{"asset":"BTC","strategy":"momentum","timeframe":"1h","risk_level":"medium"}`)
	for name, f := range map[string]func() int{
		"list": func() int {
			buffer = appendList(buffer[:0], "signals", listings, appendListing, request.Page{}, 25)
			return len(buffer)
		},
		"list/marshal": func() int {
			text, _ := encodeList("signals", listings, func(l *signal.Listing) taggedListing {
				return taggedListing{l.ID, l.Agent, l.Asset, l.Strategy, l.Direction, l.Confidence, l.Entry,
					string(signal.AppendTime(nil, l.CreatedAt))}
			}, request.Page{}, 25)
			return len(text)
		},
		"body": func() int {
			var f request.Faults
			var r runSpec
			r.read(request.ReadObject(body, &f))
			return len(r.Strategy)
		},
		"body/unmarshal": func() int {
			var r struct {
				Asset, Strategy, Timeframe string
				Risk                       string `json:"risk_level"`
			}
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if d.Decode(&r) != nil {
				return 0
			}
			return len(r.Strategy)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if f() == 0 {
					b.Fatal("nothing came of it")
				}
			}
		})
	}
}
