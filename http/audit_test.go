package http_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestChangesOfWebhooksAreLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newServer(t, &fakes{}, func(o *config) { o.Log = slog.New(slog.NewTextHandler(&out, nil)) })
	const body = `{"url":"https://example.com/hidden-path","events":["signal.created"]}`
	webhook := regexp.MustCompile(`whk_\w+`)
	for _, test := range []struct{ method, path, body, token, want string }{
		{"POST", "/v1/webhooks", body, "key", "webhook created"},
		{"PATCH", aWebhook, `{"url":"https://example.com/hidden-path"}`, "key", "webhook changed"},
		{"PATCH", aWebhook, `{"status":"disabled"}`, "jwt", "webhook changed"},
		{"PATCH", aWebhook, `{}`, "jwt", ""}, // changes nothing
		{"POST", aWebhook + "/rotate-secret", "", "key", "webhook secret rotated"},
		{"DELETE", aWebhook, "", "key", "webhook removed"},
		{"POST", "/v1/webhooks", `{}`, "key", ""},
		{"GET", aWebhook, "", "key", ""},
	} {
		out.Reset()
		a := do(t, s, test.method, test.path, test.body, "Authorization: Bearer "+test.token, "X-Request-Id: req-1")
		var got []string
		for line := range strings.Lines(out.String()) {
			if !strings.Contains(line, "msg=request ") {
				got = append(got, webhook.ReplaceAllString(line[strings.Index(line, "msg="):], "WEBHOOK"))
			}
		}
		var want []string
		if test.want != "" {
			by := map[string]string{"key": "key=" + string(keyID), "jwt": "session=ses_1"}[test.token]
			want = []string{fmt.Sprintf("msg=%q component=http account=%s webhook=WEBHOOK %s address=192.0.2.1 "+
				"request=req-1\n", test.want, accountID, by)}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s %s %s: %d (-want +got):\n%s", test.method, test.path, test.body, a.Status, d)
		}
		if strings.Contains(out.String(), "hidden-path") {
			t.Errorf("%s %s logs the address of the endpoint:\n%s", test.method, test.path, out.String())
		}
	}
}

func TestARefusedChangeOfAWebhookIsNotLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f := &fakes{}
	f.remove = func(signal.AccountID, signal.WebhookID) error { return signal.NotFound("webhook") }
	f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) { return w, signal.NotFound("webhook") }
	f.add = func(w delivery.Webhook, _ int) (delivery.Webhook, error) { return w, conflict("limit_reached") }
	s := newServer(t, f, func(o *config) { o.Log = slog.New(slog.NewTextHandler(&out, nil)) })
	do(t, s, "DELETE", aWebhook, "")
	do(t, s, "PATCH", aWebhook, `{"status":"disabled"}`)
	do(t, s, "POST", aWebhook+"/rotate-secret", "")
	do(t, s, "POST", "/v1/webhooks", `{"url":"https://example.com/","events":["signal.created"]}`)
	if strings.Count(out.String(), "\n") != 4 || strings.Contains(out.String(), "webhook=") {
		t.Errorf("logged:\n%s", out.String())
	}
}
