package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// tokenOf verifies a challenge and returns its token.
func tokenOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	if got, want := r.Header.Get(signature.HeaderSignature), signature.Sign("secret", body); got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
	var e struct {
		ID, Type string
		Data     struct{ Challenge string }
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Error(err)
	}
	if e.Type != string(EventChallenge) || r.Header.Get(signature.HeaderEvent) != e.Type ||
		r.Header.Get(signature.HeaderStandardID) != e.ID {
		t.Errorf("event %+v with headers %v", e, r.Header)
	}
	return e.Data.Challenge
}

// An endpoint proves that it accepts deliveries only with the token that was sent to it.
func TestChallenge(t *testing.T) {
	t.Parallel()
	const absent = "does not have the token"
	last := ""
	tests := map[string]struct {
		status int
		answer func(token string) string
		why    string // empty if it passes
	}{
		"the token":       {200, func(token string) string { return token }, ""},
		"with a line":     {200, func(token string) string { return token + "\r\n" }, ""},
		"an object":       {200, func(token string) string { return `{"a":1,"challenge":"` + token + `"}` }, ""},
		"201":             {201, func(token string) string { return token }, ""},
		"nothing":         {200, func(string) string { return "" }, absent},
		"the request":     {200, func(token string) string { return `{"data":{"challenge":"` + token + `"}}` }, absent},
		"a part of it":    {200, func(token string) string { return token[1:] }, absent},
		"a former one":    {200, func(string) string { return last }, absent},
		"with an error":   {404, func(token string) string { return token }, "status 404"},
		"with a redirect": {307, func(string) string { return "" }, "status 307"},
	}
	n := New(newFakeStore(), localSender(t, sender.Options{}), ringOf(t, "2026"), Options{})
	for name, test := range tests {
		asked := 0
		server := localServer(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			token := tokenOf(t, r)
			w.Header().Set("Location", "/hooks") // for the redirect
			w.WriteHeader(test.status)
			io.WriteString(w, test.answer(token))
			last = token
		})
		if name == "a former one" {
			last = "former"
		}
		hook := &delivery.Webhook{ID: signal.NewWebhookID(), URL: server.URL + "/hooks", APIVersion: "2026-11-01"}
		err := n.Challenge(t.Context(), hook, "secret")
		switch {
		case test.why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.why != "" && (signal.CodeOf(err) != guard.CodeNotAllowed || !strings.Contains(err.Error(), test.why)):
			t.Errorf("%s: %v, want %q", name, err, test.why)
		}
		if asked != 1 {
			t.Errorf("%s: %d requests", name, asked)
		}
	}
	if used := n.limiter.inFlight(); used+len(n.limiter.flows) != 0 {
		t.Errorf("%d slots and %d flows are left at the limiter", used, len(n.limiter.flows))
	}
	guarded := New(newFakeStore(), sender.New(sender.Options{}), ringOf(t, "2026"), Options{})
	hook := &delivery.Webhook{ID: signal.NewWebhookID(), URL: "https://127.0.0.1/"}
	err := guarded.Challenge(t.Context(), hook, "secret")
	if signal.CodeOf(err) != guard.CodeNotAllowed {
		t.Errorf("a forbidden address: %v", err)
	}
}

// Challenges take slots like deliveries. One that gets none in time is refused with a time
// to retry, and nothing is left at the limiter.
func TestChallengesAreBoundedByHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSender{}
		n := New(newFakeStore(), s, ringOf(t, "2026"), Options{HostConcurrency: 4})
		account := signal.NewAccountID()
		var held []slot
		for range 2 { // all that an account may have at a host
			slot, err := n.await(t.Context(), account, "a.example", fastClass)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, slot)
		}
		challenge := func() error {
			hook := &delivery.Webhook{ID: signal.NewWebhookID(), Account: account, URL: "https://a.example/"}
			return n.Challenge(t.Context(), hook, "secret")
		}
		if err := challenge(); signal.KindOf(err) != signal.KindUnavailable || len(s.sent()) != 0 {
			t.Errorf("without a slot: %v after %d requests", err, len(s.sent()))
		}
		waits := make(chan error, 1)
		go func() { waits <- challenge() }()
		pass(time.Second)
		n.limiter.release(held[0])
		if err := <-waits; signal.CodeOf(err) != guard.CodeNotAllowed || len(s.sent()) != 1 {
			t.Errorf("with the slot of another one: %v after %d requests", err, len(s.sent()))
		}
		n.limiter.release(held[1])
		s.script(func(ctx context.Context, r sender.Request) sender.Result {
			<-ctx.Done()
			return sender.Result{At: r.At, Error: delivery.Cancelled}
		})
		err := challenge()
		if signal.CodeOf(err) != guard.CodeNotAllowed || !strings.Contains(err.Error(), "no answer within 10s") {
			t.Errorf("without an answer: %v", err)
		}
		if n := n.limiter.inFlight() + len(n.limiter.flows); n != 0 {
			t.Error("a slot or a flow is left at the limiter")
		}
	})
}

// FuzzAnswersChallenge checks that no answer panics, and none without the token passes.
func FuzzAnswersChallenge(f *testing.F) {
	for _, body := range []string{"", "token", `{"challenge":"token"}`, `{"challenge":1}`, `[]`, `{"challenge":`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		const absent = "absent-token"
		if strings.Contains(body, `\u`) { // names and texts may be escaped
			return
		}
		if token := ChallengeOf([]byte(body)); token != "" && !strings.Contains(strings.ToLower(body), "data") {
			t.Errorf("%q has the token %q", body, token)
		}
		if answersChallenge(body, absent) && !strings.Contains(body, absent) {
			t.Errorf("%q passes", body)
		}
	})
}
