package http_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
)

// Append implements signalhttp.AlertLog.
func (fakeRecords) Append(context.Context, signal.Change) (signal.Position, error) {
	return signal.Position{}, nil
}

// A right token counts by its intake and by the runs of the account, and a wrong one by the address alone.
func TestLimitsOfAlerts(t *testing.T) {
	t.Parallel()
	var got []string
	refuse := limits.Class("")
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		got = append(got, string(class)+" "+who)
		return limits.Decision{Class: class, Allowed: class != refuse, Limit: 1, Window: time.Minute, RetryAfter: time.Second}
	}}
	s := newServer(t, f)
	send := func(token, body string) answer {
		return do(t, s, "POST", "/v1/intake/"+token, body, "Content-Type:text/plain")
	}
	for _, test := range []struct {
		refuse limits.Class
		token  string
		status int
		want   []string
	}{
		{"", "right", 400, []string{"intakes " + string(intakeID), "runs " + string(accountID)}},
		{limits.Failures, "right", 400, []string{"intakes " + string(intakeID), "runs " + string(accountID)}},
		{limits.Intakes, "right", 429, []string{"intakes " + string(intakeID)}},
		{limits.Runs, "right", 429, []string{"intakes " + string(intakeID), "runs " + string(accountID)}},
		{"", "wrong", 404, []string{"failures 192.0.2.1"}},
		{limits.Failures, "wrong", 429, []string{"failures 192.0.2.1"}},
	} {
		got, refuse = nil, test.refuse
		if a := send(test.token, "no alert at all"); a.Status != test.status {
			t.Errorf("%s: %d %s", test.token, a.Status, a.Body)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s takes (-want +got):\n%s", test.token, d)
		}
	}
	// Of two alerts over a limit the first is noted.
	if len(f.intakes.notes) != 3 || !strings.Contains(string(f.intakes.notes[2]), "rate_limited") {
		t.Errorf("%d notes: %s", len(f.intakes.notes), f.intakes.notes)
	}
}

// Wherever a path is shown, a token of an intake is not, whatever is wrong with the path.
func TestTokensOfIntakesAreNotShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, &fakes{}, func(c *config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const token = "ain_S3CRETS3CRETS3CRET"
	for _, path := range []string{"/v1/intake/" + token, "/v1/intake/" + token + "/", "/v1//intake/" + token, "/intake/" + token,
		"/v1/INTAKE/" + token, "/v1/intakes/" + token, "/v1/intake/%61in_S3CRETS3CRETS3CRET", "/v1/intake/x" + token[4:],
		"/v1/agents/mine/intakes/" + token, "/v1/agents/" + token + "/intakes", "/" + token} {
		for _, method := range []string{"POST", "GET", "PUT", "OPTIONS", "HEAD", "DELETE"} {
			a := do(t, s, method, path, "no alert", "Authorization: Bearer jwt")
			if strings.Contains(a.Body, "S3CRET") {
				t.Errorf("%s %s: %s", method, path, a.Body)
			}
		}
	}
	if text := log.String(); strings.Contains(text, "S3CRET") || strings.Count(text, "/v1/intake/{token}") < 6 {
		t.Error(text)
	}
}
