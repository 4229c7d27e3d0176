package http

import (
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
				t.Fatalf("the answer is no JSON: %q", doc)
			}
		}
		if list := appendList(nil, "x", nil, appendListing, p, 3); !json.Valid(list) {
			t.Fatalf("%q: %s", raw, list)
		}
	})
}

// TestEncodersWriteWhatEncodingJSONWould compares the hand-written encoders with structs.
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
			text, err := json.Marshal(listing{"sig_1", "trading", asset, "momentum", signal.Short, 0.4372, &price,
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
