package http_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// A client that leaves does not cancel its work, and the key of failed work is freed.
func TestAClientThatGoesAwayCancelsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, body string }{
		"run":      {"/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`},
		"job":      {"/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum","async":true}`},
		"scan":     {"/v1/agents/trading/scan", `{"assets":["BTC"],"strategy":"momentum"}`},
		"backtest": {"/v1/backtests", `{"agent_id":"trading","asset":"BTC","strategy":"momentum"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakes{run: func(ctx context.Context, _ signal.RunRequest) (agent.Outcome, error) {
				return agent.Outcome{Run: runID, Signal: newSignal()}, ctx.Err()
			}}
			if status := postAndLeave(t, newServer(t, f), c.path, c.body); status != http.StatusOK {
				t.Errorf("%d, want 200", status)
			}
		})
	}
	t.Run("key", func(t *testing.T) {
		t.Parallel()
		released := 0
		f := &fakes{
			run: func(context.Context, signal.RunRequest) (agent.Outcome, error) {
				return agent.Outcome{Run: runID}, &signal.RunError{Code: signal.Timeout, Message: "m"}
			},
			release: func(signal.AccountID, signal.ReplyKey) error {
				released++
				return nil
			},
		}
		postAndLeave(t, newServer(t, f), "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`)
		if released != 1 {
			t.Errorf("the key of a run that failed is freed %d times, want once", released)
		}
	})
}

// postAndLeave serves a request whose client has gone, and returns the status.
func postAndLeave(t *testing.T, s *signalhttp.Server, path, body string) int {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set("Idempotency-Key", "k 1")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code
}

// A handshake whose connection cannot be taken over no longer counts as one without a
// credential.
func TestAHandshakeThatFailsGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, func(o *config) { o.MaxAnonymous = 1 })
	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/ws/dashboard", nil)
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
			"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder() // cannot be hijacked
		s.Handler().ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests || w.Code == http.StatusSwitchingProtocols {
			t.Fatalf("%d %s, want the failure of the upgrade", w.Code, w.Body)
		}
	}
}
