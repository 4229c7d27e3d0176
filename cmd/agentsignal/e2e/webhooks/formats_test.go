package webhooks

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// A documented format, as a receiver reads it strictly: an unknown member is a fault.
type (
	slackForm struct {
		Text   string
		Blocks []struct {
			Type string
			Text struct {
				Type, Text string
				Emoji      bool
			}
		}
	}
	discordForm struct {
		Embeds []struct {
			Title, Description, Timestamp string
			Color                         int
		}
		Mentions struct{ Parse []string } `json:"allowed_mentions"`
	}
	telegramForm struct {
		ChatID  int64 `json:"chat_id"`
		Text    string
		Mode    string `json:"parse_mode"`
		Preview struct {
			Disabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
	}
	ntfyForm struct {
		Topic, Title, Message string
		Tags                  []string
	}
)

// strict reads a body as JSON without unknown members.
func strict(body string, into any) error {
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// replayChat accepts what the services document, at paths in their form, and answers as they do. It is not one of
// these services.
func replayChat(token string) func(w http.ResponseWriter, a e2e.HookRequest) {
	within := func(s string, limit int) bool { n := utf8.RuneCountInString(s); return n > 0 && n <= limit }
	return func(w http.ResponseWriter, a e2e.HookRequest) {
		if a.Header.Get("Content-Type") != "application/json" && !strings.HasPrefix(a.Path, "/template/") {
			http.Error(w, "media type", http.StatusUnsupportedMediaType)
			return
		}
		switch {
		case a.Path == "/services/T0/B0/"+token:
			var b slackForm
			if err := strict(a.Body, &b); err != nil || !within(b.Text, 40000) || len(b.Blocks) > 50 ||
				b.Blocks[0].Type != "header" || b.Blocks[0].Text.Type != "plain_text" || !within(b.Blocks[0].Text.Text, 150) {
				http.Error(w, "invalid_payload", http.StatusBadRequest)
				return
			}
			io.WriteString(w, "ok")
		case a.Path == "/api/webhooks/1/"+token:
			var b discordForm
			if err := strict(a.Body, &b); err != nil || len(b.Embeds) != 1 || !within(b.Embeds[0].Title, 256) ||
				b.Mentions.Parse == nil {
				http.Error(w, `{"code":50006,"message":"Cannot send an empty message"}`, http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		case a.Path == "/bot1:"+token+"/sendMessage":
			var b telegramForm
			tags := regexp.MustCompile(`</?b>|&(amp|lt|gt);`)
			if err := strict(a.Body, &b); err != nil || b.ChatID != -1001 || b.Mode != "HTML" || !within(b.Text, 4096) ||
				strings.ContainsAny(tags.ReplaceAllString(b.Text, ""), "<>&") {
				http.Error(w, `{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities"}`,
					http.StatusBadRequest)
				return
			}
			io.WriteString(w, `{"ok":true,"result":{"message_id":1}}`)
		case a.Path == "/": // publishing of JSON
			var b ntfyForm
			if err := strict(a.Body, &b); err != nil || b.Topic != token || len(b.Message) == 0 || len(b.Message) > 4096 {
				http.Error(w, `{"code":40017,"http":400,"error":"invalid request"}`, http.StatusBadRequest)
				return
			}
			io.WriteString(w, `{"id":"a","event":"message"}`)
		case a.Path == "/template/"+token:
		default:
			http.NotFound(w, &http.Request{})
		}
	}
}

// Every format reaches its receiver as the service documents it, signed, and the delivery shows what was sent.
// The secrets in the URLs are in no answer, log or metric.
func TestFormatsReachTheirReceivers(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	token := "marked" + rand.Text()
	end := e2e.NewHookEndpoint(t, replayChat(token))
	at, err := url.Parse(end.URL)
	e2e.Must(t, err)
	host := "http://" + at.Host
	const template = `{{if eq .type "signal.created"}}{{.data.asset}} {{price .data.asset ` +
		`.data.entry_price}}{{else}}{{.data.gone}}{{end}}`
	formats := map[string]map[string]any{
		"slack":    {"url": host + "/services/T0/B0/" + token},
		"discord":  {"url": host + "/api/webhooks/1/" + token},
		"telegram": {"url": host + "/bot1:" + token + "/sendMessage", "chat_id": "-1001"},
		"ntfy":     {"url": host + "/" + token},
		"template": {"url": host + "/template/" + token, "template": template, "content_type": "text/x-marked; charset=utf-8"},
	}
	hooks := map[string]e2e.WireWebhook{}
	for format, body := range formats {
		body["format"], body["events"] = format, []string{"signal.created"}
		a := trader.Post("/v1/webhooks", e2e.JsonOf(t, body)).Ok(t)
		hooks[format] = e2e.Decode[e2e.WireWebhook](t, a.Body)
		if format != "template" && (strings.Contains(a.Body, token) || hooks[format].URL != host+"/***") {
			t.Errorf("%s: the registration is answered %s", format, a.Body)
		}
	}
	made := trader.Run("BTC", "momentum")
	price := assets.PriceText("BTC", *made.Entry)
	arrived := end.Await(t, len(formats))
	for format, hook := range hooks {
		trader.AwaitTotal(hook, "status=succeeded", 1)
		d := trader.Deliveries(hook, "")[0]
		shown := e2e.Decode[struct {
			Sent    string `json:"request_body"`
			Payload struct{ Type string }
		}](t, trader.Get("/v1/webhooks/"+hook.ID+"/deliveries/"+d.ID).Ok(t).Body)
		found := false
		for _, a := range arrived {
			if a.Delivery() != d.ID {
				continue
			}
			found = true
			a.VerifyStandard(t, hook.Secret)
			if shown.Sent != a.Body || shown.Payload.Type != "signal.created" {
				t.Errorf("%s: %q was sent, %+v is shown", format, a.Body, shown)
			}
			if !strings.Contains(a.Body, "BTC") || !strings.Contains(a.Body, price) ||
				format != "template" && (!strings.Contains(a.Body, made.Direction) || !strings.Contains(a.Body, "momentum")) {
				t.Errorf("%s: the message is %s", format, a.Body)
			}
			if format == "template" && (a.Body != "BTC "+price || a.Header.Get("Content-Type") != "text/x-marked; "+
				"charset=utf-8") {
				t.Errorf("the template made %q of the type %s", a.Body, a.Header.Get("Content-Type"))
			}
		}
		if !found {
			t.Errorf("%s: nothing arrived", format)
		}
	}
	// A test event of which the template makes nothing: a clear reason, in lists a short one.
	failed := trader.AwaitEnd(hooks["template"], trader.Test(hooks["template"]).ID, "failed")
	if textOf(failed.Error) != "message not made: line 1: the event has no .data.gone" || len(failed.Attempts) != 1 ||
		failed.Attempts[0].ResponseStatus != nil {
		t.Errorf("the delivery without a message is %+v", failed)
	}
	if list := trader.Deliveries(hooks["template"], "status=failed"); len(list) != 1 ||
		textOf(list[0].Error) != "message not made" {
		t.Errorf("the list has %+v", list)
	}
	answers := trader.Get("/v1/webhooks").Ok(t).Body
	for what, text := range map[string]string{"the log": s.Log.String(), "the metrics": s.Client(t).Get("/metrics").Ok(t).Body,
		"the list": strings.ReplaceAll(answers, host+"/template/"+token, "")} {
		if strings.Contains(text, token) {
			t.Errorf("%s has the secret of a URL", what)
		}
	}
}
