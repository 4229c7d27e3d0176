package http_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/http/limits"
)

// TestReadersGetWhatIsDescribed: an operation answers readers, or refuses them as it describes. do compares with the
// description.
func TestReadersGetWhatIsDescribed(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	ids := strings.NewReplacer("{id}", "trading", "{asset}", "BTC", "{log}", "0", "{path}", "8%2F0%2F000",
		"{key_id}", string(keyID), "{intake_id}", "ink_1", "{delivery_id}", "dlv_1", "{token}", "ain_1",
		"{file}", "x", "{code}", "x")
	refused := 0
	for _, route := range s.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if method != http.MethodGet || strings.HasSuffix(path, "/ws/dashboard") || path == eventsPath ||
			strings.HasPrefix(path, "/log/") {
			continue
		}
		a := do(t, s, method, ids.Replace(path), "", "Authorization: Bearer view{}")
		if a.Status == http.StatusForbidden && a.problem(t).Code == "reader_key" {
			refused++
		}
	}
	if refused < 3 {
		t.Errorf("%d operations refuse readers", refused)
	}
	if a := do(t, s, "POST", "/v1/log/witness", `{}`, "Authorization: Bearer view{}"); a.problem(t).Code != "reader_key" {
		t.Errorf("a witness: %d %s", a.Status, a.Body)
	}
}

// TestReadersAreLimitedOneByOne: each by its key, in every class, and as before by the address where that counts.
func TestReadersAreLimitedOneByOne(t *testing.T) {
	t.Parallel()
	var got []string
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		got = append(got, string(class)+" "+who)
		return limits.Decision{Class: class, Allowed: class != limits.Reads || who != "key_a ", Limit: 600,
			RetryAfter: time.Second}
	}}
	s := newServer(t, f)
	for credential, status := range map[string]int{"key_a view{}": 429, "key_b view{}": 200, "key": 200, "unknown": 401} {
		got = nil
		a := do(t, s, "GET", "/v1/signals", "", "Authorization: Bearer "+credential)
		want := "reads " + string(accountID)
		switch credential {
		case "unknown":
			want = "failures 192.0.2.1"
		case "key_a view{}", "key_b view{}":
			want = "reads " + strings.TrimSuffix(credential, "view{}")
		}
		if a.Status != status || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %d, counted %q, want %q", credential, a.Status, got, want)
		}
		if strings.Contains(a.Body, string(accountID)) {
			t.Errorf("%s: the account is in %s", credential, a.Body)
		}
	}
}
