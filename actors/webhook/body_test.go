package webhook

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// vectorTime is when the event of the test vector happened and was sent.
var vectorTime = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// vectorBody is the body of the published test vector.
func vectorBody(tb testing.TB) []byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/vector.json")
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestBodyIsThatOfTheTestVector(t *testing.T) {
	t.Parallel()
	data := `{"webhook_id":"whk_01M7YQ1WTVKN9DZNWV9NV456V1","message":"This is a test event.","triggered_by":"api"}`
	got := AppendBody(nil, "evt_01M7YQ1X3DTRA4S2456P21NJZ0", signal.WebhookTest, "2026-11-01", vectorTime, []byte(data))
	if diff := cmp.Diff(string(vectorBody(t)), string(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestBodyIsWhatTheStandardLibraryWrites(t *testing.T) {
	t.Parallel()
	type envelope struct {
		ID         string          `json:"id"`
		Type       string          `json:"type"`
		APIVersion string          `json:"api_version"`
		CreatedAt  string          `json:"created_at"`
		Data       json.RawMessage `json:"data"`
	}
	const id = "evt_01M7YQ1X3DTRA4S2456P21NJZ0"
	for _, data := range []string{`{}`, `{"confidence":0.4372,"asset":"BTC/\"é\""}`, `{"previous":{"status":null}}`} {
		for _, kind := range delivery.WebhookEvents {
			at := vectorTime.Add(123456789 * time.Nanosecond)
			e := envelope{id, string(kind), "2026-11-01", "2026-11-21T09:30:00.123Z", json.RawMessage(data)}
			want, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			got := AppendBody([]byte("before "), id, kind, "2026-11-01", at, []byte(data))
			if diff := cmp.Diff("before "+string(want), string(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		}
	}
}
