package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

var payloadTime = time.Date(2026, 11, 21, 9, 29, 59, 400e6, time.UTC)

func payloadRun(asset string) *run {
	return &run{id: "run_01M7YQ1WPJA84WKP9M7T9BM2EX", request: request(asset), started: payloadTime}
}

func payloadSignal(asset string) *signal.Signal {
	return &signal.Signal{ID: "sig_01M7YQ1WTVKN9DZNWV9NV456V1", Agent: "trading", Asset: asset, Strategy: "momentum",
		Direction: signal.Long, Confidence: 0.4372,
		Levels:   &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125},
		Metadata: json.RawMessage(`{"indicators":["ema_12_26"],"reasoning":"r"}`)}
}

// TestPayloads pins the bytes: the members, their order and their forms.
func TestPayloads(t *testing.T) {
	r := payloadRun("BTC")
	job := payloadRun("BTC")
	job.job = &signal.Job{ID: "job_01M7YQ1WJ9KX5V8WQ8KXDH917J"}
	content := payloadSignal("standing desk")
	content.Levels, content.Confidence = nil, 0.5
	failure := &signal.RunError{Code: signal.DataUnavailable, Message: `no source knows "X"`, Retryable: true}
	const (
		run      = `{"agent_id":"trading","run_id":"run_01M7YQ1WPJA84WKP9M7T9BM2EX",`
		created  = `{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading",`
		metadata = `"metadata":{"indicators":["ema_12_26"],"reasoning":"r"}}`
	)
	for _, c := range []struct{ name, got, want string }{
		{"started", string(appendStarted(nil, r)), run + `"job_id":null,"asset":"BTC","strategy":"momentum",` +
			`"timeframe":"1h","risk_level":"medium","started_at":"2026-11-21T09:29:59.400Z"}`},
		{"completed", string(appendCompleted(nil, job, payloadSignal("").ID, payloadTime.Add(600*time.Millisecond))),
			run + `"job_id":"job_01M7YQ1WJ9KX5V8WQ8KXDH917J","asset":"BTC","strategy":"momentum",` +
				`"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","duration_ms":600,` +
				`"completed_at":"2026-11-21T09:30:00.000Z"}`},
		{"error", string(signal.AppendRunError(nil, "trading", r.id, failure)),
			run + `"error_code":"DATA_UNAVAILABLE","message":"no source knows \"X\"","retryable":true}`},
		{"created", string(appendCreated(nil, payloadSignal("BTC"))),
			created + `"asset":"BTC","strategy":"momentum","direction":"long","confidence":0.4372,` +
				`"entry_price":64250.125,"stop_loss":62900.125,"take_profit":66275.125,` + metadata},
		{"content", string(appendCreated(nil, content)),
			created + `"asset":"standing desk","strategy":"momentum","direction":"long","confidence":0.5,` +
				`"entry_price":null,"stop_loss":null,"take_profit":null,` + metadata},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// A clock that was set back must not make a negative duration.
	got := string(appendCompleted(nil, r, "sig_1", payloadTime.Add(-time.Second)))
	if !strings.Contains(got, `"duration_ms":0,`) {
		t.Errorf("duration in %s", got)
	}
}

// FuzzPayloads checks that encoding/json reads back any asset and any numbers.
func FuzzPayloads(f *testing.F) {
	f.Add("BTC", 64250.125, 0.4372)
	f.Add(`a"b\c`, 1e-8, 0.01)
	f.Add("東京 <&> \u2028", 1e15, 0.99)
	f.Fuzz(func(t *testing.T, asset string, price, confidence float64) {
		if !utf8.ValidString(asset) || strings.ContainsFunc(asset, unicode.IsControl) ||
			!(price > 0 && price < 1e300) || !(confidence >= 0 && confidence <= 1) {
			t.Skip()
		}
		s := payloadSignal(asset)
		s.Confidence = signal.RoundConfidence(confidence)
		s.Levels = &signal.Levels{Entry: price, Stop: price / 2, Target: price * 2}
		var got struct {
			Asset      string          `json:"asset"`
			Confidence float64         `json:"confidence"`
			Entry      float64         `json:"entry_price"`
			Stop       float64         `json:"stop_loss"`
			Target     float64         `json:"take_profit"`
			Metadata   json.RawMessage `json:"metadata"`
		}
		b := appendCreated(nil, s)
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if got.Asset != asset || got.Confidence != s.Confidence || got.Entry != price || got.Stop != price/2 ||
			got.Target != price*2 || string(got.Metadata) != string(s.Metadata) {
			t.Fatalf("%s reads back as %+v", b, got)
		}
		r := payloadRun(asset)
		for _, b := range [][]byte{appendStarted(nil, r), appendCompleted(nil, r, s.ID, payloadTime),
			signal.AppendRunError(nil, "trading", r.id, &signal.RunError{Code: signal.Internal, Message: asset})} {
			var got map[string]any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			if got["asset"] != asset && got["message"] != asset {
				t.Fatalf("%s lost the asset %q", b, asset)
			}
		}
	})
}
