package message

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// The envelopes of events.
const (
	head    = `{"id":"evt_1","api_version":"2026-11-01","created_at":"2026-11-21T09:30:00.000Z","type":`
	created = head + `"signal.created","data":{"signal_id":"sig_1","agent_id":"trading","asset":"BTC","strategy":"momentum",` +
		`"direction":"long","confidence":0.4166,"entry_price":87413.631,"stop_loss":86349.224,"take_profit":89010.25,` +
		`"metadata":{"indicators":["rsi"],"reasoning":"a <b> & *c*","source":"simulated"}}}`
	updated = head + `"signal.updated","data":{"signal_id":"sig_1","agent_id":"trading","asset":"EUR/USD","strategy":` +
		`"breakout",` +
		`"direction":"short","confidence":0.6603,"entry_price":1.081234,"stop_loss":1.09,"take_profit":1.07,"status":"open",` +
		`"updated_at":"2026-11-21T11:00:00.000Z","previous":{"confidence":0.4372}}}`
	closed = head + `"signal.closed","data":{"signal_id":"sig_1","asset":"BTC","close_reason":"take_profit",` +
		`"entry_price":87413.63,` +
		`"exit_price":89010.25,"pnl_percent":1.8265,"pnl_absolute":1596.62,"duration_minutes":95}}`
	text = head + `"signal.created","data":{"signal_id":"sig_1","agent_id":"seo","asset":"a <desk> & *co*","strategy":` +
		`"blog_post",` +
		`"direction":"neutral","confidence":0.917,"entry_price":null,"stop_loss":null,"take_profit":null,"metadata":{}}}`
	failed = head + `"agent.error","data":{"agent_id":"trading","run_id":"run_1","error_code":"DATA_UNAVAILABLE",` +
		`"message":"no\nprices","retryable":true}}`
	tested = head + `"webhook.test","data":{"webhook_id":"whk_1","message":"This is a test event.","triggered_by":"api"}}`
)

func TestNotes(t *testing.T) {
	t.Parallel()
	for envelope, want := range map[string]string{
		created: "New: BTC long|trading momentum|Confidence 41.7 %|Entry 87413.63, stop 86349.22, target " +
			"89010.25|Simulated prices",
		updated: "EUR/USD short: confidence changed|trading breakout|Confidence 66.0 %, was 43.7 %|" +
			"Entry 1.08123, stop 1.09000, target 1.07000",
		closed: "Closed: BTC by take profit, +1.83 %|Result before costs|Entry 87413.63, exit 89010.25|Open for 1 h 35 min",
		text:   "New: a <desk> & *co* neutral|seo blog_post|91.7 % of the checks passed",
		failed: "trading failed: DATA_UNAVAILABLE|no prices",
		tested: "Test|This is a test event.",
		head + `"agent.started","data":{"agent_id":"trading","asset":"BTC","strategy":"momentum"}}`: "trading runs " +
			"momentum on BTC",
		head + `"agent.completed","data":{"agent_id":"trading","asset":"BTC","strategy":"momentum","signal_id":"sig_1"}}`: "" +
			"trading has run momentum on BTC",
		head + `"agent.completed","data":{"agent_id":"mine","asset":"BTC","strategy":"cross","signal_id":null}}`: "" +
			"mine has run cross on BTC|It has no signal",
		head + `"log.checkpoint","data":{"checkpoint":"c","signed_at":"2026-11-21","leaves":2}}`: "Checkpoint of " +
			"the record|2 leaves, signed at 2026-11-21",
		head + `"signal.closed","data":{"asset":"desk","close_reason":"expired","entry_price":null,"exit_price":null,` +
			`"pnl_percent":null,"duration_minutes":5}}`: "Closed: desk by expired|Open for 5 min",
		head + `"signal.closed","data":{"asset":"BTC","close_reason":"agent_exit","entry_price":100,"exit_price":99,` +
			`"pnl_percent":-1,"duration_minutes":5}}`: "Closed: BTC by its agent, -1.00 %|Result before costs|" +
			"Entry 100.00, exit 99.00|Open for 5 min",
		`{"type":7,"data":[]}`: "",
	} {
		var e map[string]any
		if err := json.Unmarshal([]byte(envelope), &e); err != nil {
			t.Fatal(err)
		}
		n := describe(e)
		got := strings.Join(append([]string{n.title}, n.lines...), "|")
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", envelope, d)
		}
	}
}

// bodyOf returns the body for an event.
func bodyOf(t *testing.T, w delivery.Webhook, envelope string) string {
	t.Helper()
	b, err := New(&w).Render([]byte(envelope))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBodiesOfChatServices(t *testing.T) {
	t.Parallel()
	tests := []struct {
		hook delivery.Webhook
		want string
	}{
		{delivery.Webhook{Format: delivery.Slack}, `{"text":"New: a &lt;desk&gt; &amp; *co* neutral\nseo ` +
			`blog_post\n91.7 % of the checks passed",` +
			`"blocks":[{"type":"header","text":{"type":"plain_text","text":"New: a <desk> & *co* neutral","emoji":false}},` +
			`{"type":"section","text":{"type":"plain_text","text":"seo blog_post\n91.7 % of the checks passed","emoji":` +
			`false}}]}`},
		{delivery.Webhook{Format: delivery.Discord}, `{"embeds":[{"title":"New\\: a \\<desk\\> & \\*co\\* neutral",` +
			`"description":"seo blog\\_post\n91.7 % of the checks passed","color":6323595,"timestamp":"2026-11-21T09:30:` +
			`00.000Z"}],` +
			`"allowed_mentions":{"parse":[]}}`},
		{delivery.Webhook{Format: delivery.Telegram, ChatID: "-1001"}, `{"chat_id":-1001,"text":"<b>New: a &lt;desk&gt; ` +
			`&amp; *co* neutral</b>\n` +
			`seo blog_post\n91.7 % of the checks passed","parse_mode":"HTML","link_preview_options":{"is_disabled":true}}`},
		{delivery.Webhook{Format: delivery.Telegram, ChatID: "@a_b"}, `{"chat_id":"@a_b","text":"<b>New: a &lt;desk&gt; ` +
			`&amp; *co* neutral</b>\n` +
			`seo blog_post\n91.7 % of the checks passed","parse_mode":"HTML","link_preview_options":{"is_disabled":true}}`},
		{delivery.Webhook{Format: delivery.Ntfy, URL: "https://ntfy.sh/topic?auth=x"}, `{"topic":"topic","title":"New: ` +
			`a <desk> & *co* neutral",` +
			`"message":"seo blog_post\n91.7 % of the checks passed"}`},
	}
	for _, test := range tests {
		if d := cmp.Diff(test.want, bodyOf(t, test.hook, text)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.hook.Format, d)
		}
		if _, err := New(&test.hook).Render([]byte("{")); err == nil {
			t.Errorf("%s: a message of no event", test.hook.Format)
		}
	}
	if New(&delivery.Webhook{}) != nil || New(&delivery.Webhook{Format: delivery.Standard}) != nil {
		t.Error("the standard format has messages")
	}
	r := New(&delivery.Webhook{Format: delivery.Ntfy, URL: "https://ntfy.sh/topic?auth=x"})
	if r.URL() != "https://ntfy.sh/?auth=x" {
		t.Errorf("messages to ntfy go to %s", r.URL())
	}
}

// However long the values of an event are, the services accept the message.
func TestMessagesStayWithinTheLimits(t *testing.T) {
	t.Parallel()
	units := func(s string) int { return len(utf16.Encode([]rune(s))) }
	for _, char := range []string{"x", "*", "&", "€", "😀", "\u2028"} {
		long := strings.Repeat(char, 20_000)
		b, err := json.Marshal(map[string]any{"type": "agent.error", "created_at": "2026-11-21T09:30:00.000Z",
			"data": map[string]any{"agent_id": long, "error_code": long, "message": long}})
		if err != nil {
			t.Fatal(err)
		}
		var slack slackBody
		var discord discordBody
		var telegram telegramBody
		var ntfy ntfyBody
		for format, into := range map[delivery.Format]any{delivery.Slack: &slack, delivery.Discord: &discord,
			delivery.Telegram: &telegram, delivery.Ntfy: &ntfy} {
			body := bodyOf(t, delivery.Webhook{Format: format, ChatID: "1", URL: "https://ntfy.sh/t"}, string(b))
			if err := json.Unmarshal([]byte(body), into); err != nil {
				t.Fatal(err)
			}
		}
		shown := strings.NewReplacer("&amp;", "&", "<b>", "", "</b>", "").Replace(telegram.Text) // after the parsing of entities
		for name, got := range map[string][2]int{
			"header of Slack":        {units(slack.Blocks[0].Text.Text), 150},
			"section of Slack":       {units(slack.Blocks[1].Text.Text), 3000},
			"title of Discord":       {units(discord.Embeds[0].Title), 256},
			"description of Discord": {units(discord.Embeds[0].Description), 4096},
			"text of Telegram":       {units(shown), 4096},
			"bytes of ntfy":          {len(ntfy.Message), 4096},
		} {
			if got[0] == 0 || got[0] > got[1] {
				t.Errorf("%q: the %s has %d, at most %d are accepted", char, name, got[0], got[1])
			}
		}
		if !strings.HasSuffix(ntfy.Message, "…") {
			t.Errorf("%q: a message that was cut ends in %q", char, ntfy.Message[len(ntfy.Message)-5:])
		}
	}
	if got := cut("abc", 3) + cut("abcd", 3) + cut("a😀b", 3); got != "abc"+"ab…"+"a…" {
		t.Errorf("cut texts are %q", got)
	}
}

func TestURLsAndChats(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format delivery.Format
		url    string
		ok     bool
	}{
		{delivery.Telegram, "https://api.telegram.org/bot1:a/sendMessage", true},
		{delivery.Telegram, "https://api.telegram.org/bot1:a", false},
		{delivery.Ntfy, "https://ntfy.sh/a", true},
		{delivery.Ntfy, "https://ntfy.sh/a/", true},
		{delivery.Ntfy, "https://ntfy.sh/", false},
		{delivery.Ntfy, "https://ntfy.sh/a/b", false},
		{delivery.Slack, "https://hooks.slack.com/services/T/B/x", true},
		{"", "https://a.example/", true},
	} {
		if err := CheckURL(test.format, test.url); (err == nil) != test.ok {
			t.Errorf("%s %s: %v", test.format, test.url, err)
		}
	}
	for id, want := range map[string]bool{"1": true, "-100123": true, "@a_B9": true, "@": false, "a": false, "": false,
		"1.5": false, "@a b": false} {
		if got := CheckChatID(id); got != want {
			t.Errorf("chat %q: %v", id, got)
		}
	}
}

func TestRetryAfterInBodies(t *testing.T) {
	t.Parallel()
	const telegram = `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 35","parameters":` +
		`{"retry_after":35}}`
	const discord = `{"message":"You are being rate limited.","retry_after":64.5,"global":false}`
	for _, test := range []struct {
		format delivery.Format
		status int
		body   string
		want   time.Duration
	}{
		{delivery.Telegram, 429, telegram, 35 * time.Second},
		{delivery.Telegram, 400, telegram, 0},
		{delivery.Telegram, 429, discord, 0},
		{delivery.Telegram, 429, "busy", 0},
		{delivery.Telegram, 429, `{"parameters":{"retry_after":1e300}}`, 24 * time.Hour},
		{delivery.Discord, 429, discord, 64500 * time.Millisecond},
		{delivery.Discord, 429, `{"retry_after":-1}`, 0},
		{delivery.Slack, 429, discord, 0},
	} {
		r := New(&delivery.Webhook{Format: test.format})
		if got := r.RetryAfter(test.status, test.body); got != test.want {
			t.Errorf("%s %d %s: %v, want %v", test.format, test.status, test.body, got, test.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	const long = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	tests := []struct{ template, want, fault string }{
		{`{{.data.asset}} {{.data.direction | upper}} at {{price .data.asset .data.entry_price}}, {{percent .data.confidence}}`,
			"BTC LONG at 87413.63, 41.7 %", ""},
		{`{"text":{{json .data.metadata.reasoning}},"all":{{json .data.metadata.indicators}}}`,
			`{"text":"a \u003cb\u003e \u0026 *c*","all":["rsi"]}`, ""},
		{`{{if eq .type "signal.created"}}{{.data.confidence}}{{else}}other{{end}}`, "0.4166", ""},
		{`{{range $i, $x := .data.metadata.indicators}}{{$i}}{{$x}}{{end}}{{with .data.gone}}{{.}}{{else}}-{{end}}`, "0rsi-", ""},
		{`{{range .data.gone}}x{{else}}none{{end}}{{if and .data.gone (gt .data.confidence 0.5)}}{{end}}`, "none", ""},
		{`{{range 3}}{{.}}{{if eq . 1}}{{break}}{{end}}{{end}}{{len .data.asset}}{{$x := 1}}{{$x = 2}}{{$x}}`, "0132", ""},
		{"a\n\n{{.data.gone}}", "", "line 3: the event has no .data.gone"},
		{"{{.data.gone.asset}}", "", "line 1: the event has no .data.gone.asset"},
		{"{{.data.metadata}}", "", "line 1: .data.metadata is an object or a list: use json"},
		{"{{if false}}x{{end}} \n", "", "the template makes no text of this event"},
		{"{{range 1000000000}}{{end}}{{.type}}", "", "the template repeats too much"},
		{"{{range 100000}}{{range 100000}}{{if false}}x{{end}}{{end}}{{end}}", "", "the template repeats too much"},
		{"{{range 300}}" + long + "{{end}}", "", "the text is longer than 16384 bytes"},
		{`{{$x := "\""}}{{range 100}}{{$x = json $x}}{{end}}{{$x}}`, "", "the text is longer than 16384 bytes"},
		{"{{range 10000}}{{$x := json $}}{{end}}a", "", "the template repeats too much"},
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(created), &e); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		parsed, err := ParseTemplate(test.template)
		if err != nil {
			t.Errorf("%s: %v", test.template, err)
			continue
		}
		for range 2 { // an execution leaves nothing behind
			got, err := parsed.Execute(e)
			if string(got) != test.want || (err == nil) != (test.fault == "") ||
				err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %q, %v; want %q, %q", test.template, got, err, test.want, test.fault)
			}
		}
	}
}

func TestRefusedTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\n{{.data.asset":                        "line 2: unclosed action",
		"a\n\n{{printf \"%1000000d\" 1}}":         `line 3: function "printf" not defined`,
		"{{call .x}}":                             `line 1: function "call" not defined`,
		"{{show 1}}":                              `line 1: function "show" not defined`,
		"{{step 1}}":                              `line 1: function "step" not defined`,
		"{{if}}{{end}}":                           "line 1: missing value for if",
		"{{define \"x\"}}x{{end}}a":               "line 1: define and block are not available",
		"{{block \"x\" .}}{{end}}":                "line 1: define and block are not available",
		"\n{{range .x}}{{template \"y\"}}{{end}}": "line 2: template is not available",
		"{{.x}}{{end}}":                           "line 1: unexpected {{end}}",
	} {
		if _, err := ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	w := delivery.Webhook{Format: delivery.Template, Template: `{"asset":"{{.data.asset}}"}`, ContentType: "application/json"}
	if got := bodyOf(t, w, created); got != `{"asset":"BTC"}` {
		t.Errorf("JSON is %s", got)
	}
	for template, want := range map[string]string{`{"asset":{{.data.asset}}}`: "the text is not JSON", "{{": "line 1: " +
		"unclosed action"} {
		w.Template = template
		if _, err := New(&w).Render([]byte(created)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", template, err, want)
		}
	}
	w.ContentType = ""
	if got := New(&w).ContentType(); got != DefaultContentType {
		t.Errorf("the content type is %q", got)
	}
}

// The answers are those that the services document. Slack's has no token.
func TestAnswersToChallenges(t *testing.T) {
	t.Parallel()
	const token = "TOKEN"
	for format, answer := range map[delivery.Format]string{
		delivery.Slack: "ok",
		delivery.Discord: `{"id":"1","type":0,"content":"","channel_id":"2","embeds":[{"type":"rich","title":"agentsignal",` +
			`"description":"TOKEN","color":1}],"webhook_id":"3"}`,
		delivery.Telegram: `{"ok":true,"result":{"message_id":1,"chat":{"id":-1001},"date":1,"text":"agentsignal\nTOKEN"}}`,
		delivery.Ntfy: `{"id":"a","time":1,"expires":2,"event":"message","topic":"t","title":"agentsignal",` +
			`"message":"TOKEN"}`,
	} {
		r := New(&delivery.Webhook{Format: format, ChatID: "1", URL: "https://a.example/t?x=1"})
		to, body, err := r.Challenge(token)
		if err != nil || !strings.Contains(string(body), token) || !strings.Contains(to, "x=1") ||
			strings.Contains(to, "wait=true") != (format == delivery.Discord) {
			t.Errorf("%s: %s to %s, %v", format, body, to, err)
		}
		if !r.AnswersChallenge(answer, token) {
			t.Errorf("%s: %s does not pass", format, answer)
		}
		for _, bad := range []string{"", "{}", "not ok", string(body), strings.ReplaceAll(answer, token, "OTHER")} {
			if bad != "ok" && r.AnswersChallenge(bad, token) {
				t.Errorf("%s: %s passes", format, bad)
			}
		}
	}
}

// FuzzTemplate checks that no template panics, and that its texts and faults stay within their limits.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{{.data.asset}}", "{{range 9}}{{.}}{{end}}",
		"{{if .x}}{{else with .y}}{{.}}{{end}}", "{{$x := json .}}{{$x}}",
		"{{range $i, $x := .data}}{{break}}{{end}}", "{{(index .data \"asset\").x}}", "{{/* a */}}{{- .type -}}",
		"{{range 1.5}}{{end}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > delivery.MaxWebhookTemplate {
			return
		}
		faulty := func(err error) {
			if len(err.Error()) > maxReason+8 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q: the fault is %q", text, err)
			}
		}
		parsed, err := ParseTemplate(text)
		if err != nil {
			faulty(err)
			return
		}
		for _, envelope := range []string{created, tested} {
			var e map[string]any
			if err := json.Unmarshal([]byte(envelope), &e); err != nil {
				t.Fatal(err)
			}
			got, err := parsed.Execute(e)
			if err != nil {
				faulty(err)
			} else if len(got) > MaxBytes || len(bytes.TrimSpace(got)) == 0 {
				t.Errorf("%q makes %d bytes", text, len(got))
			}
		}
	})
}
