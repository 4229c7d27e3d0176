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
	if e.Type != string(EventChallenge) || r.Header.Get(signature.HeaderEvent) != e.Type || r.Header.Get(signature.HeaderStandardID) != e.ID {
		t.Errorf("event %+v with headers %v", e, r.Header)
	}
	return e.Data.Challenge
}

// An endpoint proves that it takes deliveries with the token that was sent to it, and
// with nothing else.
func TestChallenge(t *testing.T) {
	t.Parallel()
	last := ""
	tests := map[string]struct {
		answer func(w http.ResponseWriter, token string, r *http.Request)
		why    string // empty: it passes
	}{
		"the token":   {func(w http.ResponseWriter, token string, _ *http.Request) { io.WriteString(w, token) }, ""},
		"with a line": {func(w http.ResponseWriter, token string, _ *http.Request) { io.WriteString(w, token+"\r\n") }, ""},
		"an object": {func(w http.ResponseWriter, token string, _ *http.Request) {
			io.WriteString(w, `{"a":1,"challenge":"`+token+`"}`)
		}, ""},
		"201": {func(w http.ResponseWriter, token string, _ *http.Request) {
			w.WriteHeader(201)
			io.WriteString(w, token)
		}, ""},
		"nothing": {func(http.ResponseWriter, string, *http.Request) {}, "does not have the token"},
		"what it got": {func(w http.ResponseWriter, token string, _ *http.Request) {
			io.WriteString(w, `{"data":{"challenge":"`+token+`"}}`)
		}, "does not have the token"},
		"a part of it": {func(w http.ResponseWriter, token string, _ *http.Request) { io.WriteString(w, token[1:]) }, "does not have the token"},
		"a former one": {func(w http.ResponseWriter, _ string, _ *http.Request) { io.WriteString(w, last) }, "does not have the token"},
		"with an error": {func(w http.ResponseWriter, token string, _ *http.Request) {
			w.WriteHeader(404)
			io.WriteString(w, token)
		}, "status 404"},
		"elsewhere": {func(w http.ResponseWriter, _ string, r *http.Request) {
			http.Redirect(w, r, "/hooks", http.StatusTemporaryRedirect)
		}, "status 307"},
	}
	n := New(newFakeStore(), localSender(t, sender.Options{}), ringOf(t, "2026"), Options{})
	for name, test := range tests {
		asked := 0
		server := localServer(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			token := tokenOf(t, r)
			test.answer(w, token, r)
			last = token
		})
		if name == "a former one" {
			last = "former"
		}
		err := n.Challenge(t.Context(), &delivery.Webhook{ID: signal.NewWebhookID(), URL: server.URL + "/hooks", APIVersion: "2026-11-01"}, "secret")
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
		t.Errorf("%d slots and %d flows are left at the gate", used, len(n.limiter.flows))
	}
	guarded := New(newFakeStore(), sender.New(sender.Options{}), ringOf(t, "2026"), Options{})
	err := guarded.Challenge(t.Context(), &delivery.Webhook{ID: signal.NewWebhookID(), URL: "https://127.0.0.1/"}, "secret")
	if signal.CodeOf(err) != guard.CodeNotAllowed {
		t.Errorf("an address that is not allowed: %v", err)
	}
}

// Challenges take slots as deliveries do: one that finds none in time is refused with a
// time to try again, and nothing is left at the limiter.
func TestChallengesAreBoundedByHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		courier := &fakeSender{}
		n := New(newFakeStore(), courier, ringOf(t, "2026"), Options{HostConcurrency: 4})
		account := signal.NewAccountID()
		var held []slot
		for range 2 { // all that an account may have at a host
			s, err := n.await(t.Context(), account, "a.example")
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, s)
		}
		challenge := func() error {
			return n.Challenge(t.Context(), &delivery.Webhook{ID: signal.NewWebhookID(), Account: account, URL: "https://a.example/"}, "secret")
		}
		if err := challenge(); signal.KindOf(err) != signal.KindUnavailable || len(courier.sent()) != 0 {
			t.Errorf("without a slot: %v after %d requests", err, len(courier.sent()))
		}
		waits := make(chan error, 1)
		go func() { waits <- challenge() }()
		pass(time.Second)
		n.limiter.release(held[0])
		if err := <-waits; signal.CodeOf(err) != guard.CodeNotAllowed || len(courier.sent()) != 1 {
			t.Errorf("with the slot of another one: %v after %d requests", err, len(courier.sent()))
		}
		n.limiter.release(held[1])
		courier.script(func(ctx context.Context, r sender.Request) sender.Result {
			<-ctx.Done()
			return sender.Result{At: r.At, Error: delivery.Cancelled}
		})
		if err := challenge(); signal.CodeOf(err) != guard.CodeNotAllowed || !strings.Contains(err.Error(), "no answer within 10s") {
			t.Errorf("without an answer: %v", err)
		}
		if n := n.limiter.inFlight() + len(n.limiter.flows); n != 0 {
			t.Error("a slot or a flow is left at the gate")
		}
	})
}

// FuzzAnswersChallenge checks that no answer panics, and none without the token passes.
func FuzzAnswersChallenge(f *testing.F) {
	for _, body := range []string{"", "token", `{"challenge":"token"}`, `{"challenge":1}`, `[]`, `{"challenge":`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if token := ChallengeOf([]byte(body)); token != "" && !strings.Contains(body, `"data"`) && !strings.Contains(body, `\u`) &&
			!strings.Contains(strings.ToLower(body), "data") {
			t.Errorf("%q has the token %q", body, token)
		}
		if answersChallenge(body, "token-that-is-not-there") && !strings.Contains(body, "token-that-is-not-there") &&
			!strings.Contains(body, `\u`) {
			t.Errorf("%q passes", body)
		}
	})
}
