package http_test

import (
	"context"
	"testing"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestIdempotency(t *testing.T) {
	t.Parallel()
	var claimed, released []signal.ReplyKey
	var kept *signal.Reply
	var claimErr error
	f := &fakes{
		claim: func(account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error) {
			claimed = append(claimed, key)
			return kept, claimErr
		},
		release: func(_ signal.AccountID, key signal.ReplyKey) error {
			released = append(released, key)
			return nil
		},
	}
	s := newServer(t, f)
	post := func(path, body string) answer { return do(t, s, "POST", path, body, "Idempotency-Key: k 1") }
	body := `{"asset":"BTC","strategy":"momentum"}`

	a := post("/v1/agents/trading/run", body)
	if a.Status != 200 || len(claimed) != 1 || len(released) != 0 || claimed[0].Key != "k 1" ||
		claimed[0].Method != "POST" ||
		claimed[0].Path != "/v1/agents/trading/run" || claimed[0].RequestHash == [32]byte{} ||
		a.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("first: %d, claimed %v, released %v", a.Status, claimed, released)
	}
	first := a.Body
	kept = &signal.Reply{Status: 200, Header: map[string]string{"X-Run-Id": string(runID)}, Signal: newSignal()}
	if a := post("/v1/agents/trading/run", body); a.Status != 200 || a.Body != first ||
		a.Header.Get("Idempotency-Replayed") != "true" || a.Header.Get("X-Run-Id") != string(runID) {
		t.Errorf("replayed: %d %v %s", a.Status, a.Header, a.Body)
	}
	kept = nil

	claimed = nil
	for _, bad := range []struct{ path, body string }{{"/v1/agents/trading/run", `{}`},
		{"/v1/agents/nosuch/run", body}} {
		if a := post(bad.path, bad.body); a.Status < 400 || len(claimed) != 0 {
			t.Errorf("%s: the key is looked at before the values: %d %v", bad.path, a.Status, claimed)
		}
	}
	f.run = func(context.Context, signal.RunRequest) (agent.Outcome, error) {
		return agent.Outcome{Run: runID}, &signal.RunError{Code: signal.Timeout, Message: "m"}
	}
	if a := post("/v1/agents/trading/run", body); a.Status != 500 || len(released) != 1 {
		t.Errorf("a failed run keeps its key: %d %v", a.Status, released)
	}
	f.run = func(context.Context, signal.RunRequest) (agent.Outcome, error) { panic("broken") }
	if a := post("/v1/agents/trading/run", body); a.Status != 500 || len(released) != 2 {
		t.Errorf("a run that panics keeps its key: %d %v", a.Status, released)
	}
	claimErr = &signal.Error{Kind: signal.KindMismatch, Code: "idempotency_key_reused", Message: "m"}
	if a := post("/v1/agents/trading/run", body); a.Status != 422 || len(released) != 2 {
		t.Errorf("another body: %d, released %v", a.Status, released)
	}
}
