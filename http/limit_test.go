package http_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/http/limits"
)

func TestRateLimits(t *testing.T) {
	t.Parallel()
	type taken struct {
		Class limits.Class
		Who   string
	}
	var got []taken
	var refuse limits.Class
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		got = append(got, taken{class, who})
		if class == refuse {
			return limits.Decision{Class: class, Limit: 600, Window: time.Minute, Reset: 300 * time.Millisecond,
				RetryAfter: time.Second}
		}
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 599,
			Reset: 100 * time.Millisecond}
	}}
	s := newServer(t, f)
	account, address := string(accountID), "192.0.2.1"
	tests := []struct {
		method, path, authorization string
		want                        []taken
	}{
		{"POST", "/v1/agents/trading/run", "Bearer key", []taken{{limits.Runs, account}}},
		{"GET", "/v1/signals", "Bearer key", []taken{{limits.Reads, account}}},
		{"HEAD", "/v1/signals", "Bearer key", []taken{{limits.Reads, account}}},
		{"GET", "/v1/auth/api-keys", "Bearer jwt", []taken{{limits.Reads, account}}},
		{"POST", "/v1/auth/api-key", "Bearer jwt", []taken{{limits.Writes, account}}},
		{"DELETE", "/v1/auth/api-keys/x", "Bearer jwt", []taken{{limits.Writes, account}}},
		{"POST", "/v1/auth/login", "", []taken{{limits.Logins, address}}},
		{"POST", "/v1/auth/register", "", []taken{{limits.Registrations, address}}},
		{"POST", "/v1/auth/refresh", "", []taken{{limits.Sessions, address}}},
		{"POST", "/v1/auth/logout", "Bearer jwt", []taken{{limits.Sessions, address}}},
		{"GET", "/v1/signals", "Bearer wrong", []taken{{limits.Failures, address}}},
		{"GET", "/v1/ws/dashboard", "Bearer key", []taken{{limits.Streams, account}}},
		{"GET", "/ws/dashboard", "", []taken{{limits.Streams, address}}},
		{"GET", "/v1/sse/dashboard", "Bearer key", []taken{{limits.Streams, account}}},
		{"GET", "/v1/sse/dashboard", "", []taken{{limits.Failures, address}}},
		{"OPTIONS", "/v1/signals", "", nil},
		{"GET", "/v1/nosuch", "", nil},
		{"GET", "/healthz", "", nil},
	}
	for _, test := range tests {
		got = nil
		do(t, s, test.method, test.path, "", "Authorization:"+test.authorization)
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s %s takes (-want +got):\n%s", test.method, test.path, d)
		}
	}

	fields := func(a answer) string {
		h := a.Header
		return strings.Join([]string{h.Get("RateLimit-Policy"), h.Get("RateLimit"), h.Get("X-RateLimit-Limit"),
			h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), h.Get("Retry-After")}, " | ")
	}
	a := do(t, s, "GET", "/v1/signals?limit=0", "")
	if want := `"reads";q=600;w=60 | "reads";r=599;t=1 | 600 | 599 | 1795253401 | `; fields(a) != want {
		t.Errorf("allowed: %s", fields(a))
	}
	refuse = limits.Reads
	a = do(t, s, "GET", "/v1/signals", "")
	if want := `"reads";q=600;w=60 | "reads";r=0;t=1 | 600 | 0 | 1795253401 | 1`; fields(a) != want ||
		a.problem(t).Code != "rate_limited" {
		t.Errorf("refused: %s %s", fields(a), a.Body)
	}
	refuse = limits.Failures
	a = do(t, s, "GET", "/v1/signals", "", "Authorization: Bearer wrong")
	if a.Status != 429 || a.problem(t).Code != "rate_limited" || a.Header.Get("Www-Authenticate") != "" ||
		!strings.HasPrefix(fields(a), `"failures"`) {
		t.Errorf("after too many failures: %d %s %s", a.Status, fields(a), a.Body)
	}
	if a := do(t, s, "GET", "/v1/signals", ""); a.Status != 200 {
		t.Errorf("a valid credential after too many failures: %d", a.Status)
	}
}

// TestEveryAnswerShowsTheLimit has requests fail at each check.
func TestEveryAnswerShowsTheLimit(t *testing.T) {
	t.Parallel()
	off := map[limits.Class]bool{}
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		if off[class] {
			return limits.Decision{Class: class, Allowed: true}
		}
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 1}
	}}
	s := newServer(t, f)
	// The remaining requests of fakeLimits.Peek.
	account, address := strconv.Itoa(len(accountID)), strconv.Itoa(len("192.0.2.1"))
	for _, test := range []struct {
		name, method, path, authorization string
		off                               limits.Class
		status                            int
		want                              string
	}{
		{"no credential", "GET", "/v1/signals", "", "", 401, `"failures";r=1;t=0`},
		{"a bad one", "POST", "/v1/agents/trading/run", "Bearer wrong", "", 401, `"failures";r=1;t=0`},
		{"a bad one, failures not limited", "POST", "/v1/agents/trading/run", "Bearer wrong", limits.Failures, 401,
			`"runs";r=` + address + `;t=0`},
		{"a key where none is taken", "POST", "/v1/auth/api-key", "Bearer key", "", 401, `"failures";r=1;t=0`},
		{"a key where none is taken, failures not limited", "POST", "/v1/auth/api-key", "Bearer key",
			limits.Failures, 401, `"writes";r=` + account + `;t=0`},
		{"no scope", "POST", "/v1/agents/trading/run", "Bearer reader", "", 403, `"runs";r=` + account + `;t=0`},
		{"a wrong value", "GET", "/v1/signals?limit=0", "Bearer key", "", 400, `"reads";r=1;t=0`},
		{"no such thing", "GET", "/v1/signals/x", "Bearer key", "", 404, `"reads";r=1;t=0`},
		{"an address is limited", "POST", "/v1/auth/login", "", "", 400, `"logins";r=1;t=0`},
		{"no such method", "PUT", "/v1/signals", "Bearer key", "", 405, ""},
		{"no such path", "GET", "/v1/nosuch", "Bearer key", "", 404, ""},
		{"no limit", "GET", "/healthz", "", "", 200, ""},
	} {
		off = map[limits.Class]bool{test.off: true}
		a := do(t, s, test.method, test.path, "", "Authorization:"+test.authorization)
		h := a.Header
		if a.Status != test.status || h.Get("RateLimit") != test.want ||
			(h.Get("RateLimit-Policy") == "") != (test.want == "") {
			t.Errorf("%s: %d with %q, want %d with %q", test.name, a.Status, h.Get("RateLimit"), test.status, test.want)
		}
		if retry := h.Get("Retry-After"); retry != "" {
			t.Errorf("%s: Retry-After: %s", test.name, retry)
		}
	}
}
