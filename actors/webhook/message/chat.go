package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// The bodies of chat services, by their documentation:
// Slack: https://api.slack.com/messaging/webhooks, https://api.slack.com/reference/block-kit/blocks
// Discord: https://discord.com/developers/docs/resources/webhook#execute-webhook
// Telegram: https://core.telegram.org/bots/api#sendmessage, #html-style
// ntfy: https://docs.ntfy.sh/publish/#publish-as-json
type (
	slackBody struct {
		Text   string       `json:"text"` // for notifications, with & < > escaped
		Blocks []slackBlock `json:"blocks"`
	}
	slackBlock struct {
		Type string    `json:"type"`
		Text slackText `json:"text"`
	}
	// slackText is plain, so that nothing in it is a mention, a link or formatted.
	slackText struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Emoji bool   `json:"emoji"`
	}

	discordBody struct {
		Embeds   []discordEmbed  `json:"embeds"`
		Mentions discordMentions `json:"allowed_mentions"`
	}
	discordEmbed struct {
		Title       string `json:"title"`
		Description string `json:"description,omitempty"`
		Color       int    `json:"color"`
		Timestamp   string `json:"timestamp,omitempty"`
	}
	discordMentions struct {
		Parse []string `json:"parse"` // empty: no mention takes effect
	}

	telegramBody struct {
		ChatID  any             `json:"chat_id"` // a number, or a text such as @channel
		Text    string          `json:"text"`
		Mode    string          `json:"parse_mode"`
		Preview telegramPreview `json:"link_preview_options"`
	}
	telegramPreview struct {
		Disabled bool `json:"is_disabled"`
	}

	ntfyBody struct {
		Topic   string   `json:"topic"`
		Title   string   `json:"title"`
		Message string   `json:"message"`
		Tags    []string `json:"tags,omitempty"` // names of emoji
	}
)

var (
	colours = map[tone]int{neutral: 0x607d8b, rising: 0x2e7d32, falling: 0xc62828, alarm: 0xf9a825}
	emoji   = map[tone][]string{rising: {"chart_with_upwards_trend"}, falling: {"chart_with_downwards_trend"},
		alarm: {"warning"}}

	// escapeHTML escapes what Slack and Telegram do not take as it is.
	escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	// escapeMarkdown escapes what Discord would format.
	escapeMarkdown = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "~", `\~`, "`", "\\`", "|", `\|`, ">", `\>`,
		"<", `\<`, "#", `\#`, "[", `\[`, "]", `\]`, "(", `\(`, ")", `\)`, "@", `\@`, ":", `\:`)
)

// chat returns the body of a note.
func (r *Renderer) chat(n note) ([]byte, error) {
	head, text := n.head(), n.text()
	switch r.format {
	case delivery.Slack:
		b := slackBody{Text: escapeHTML.Replace(strings.TrimSpace(head + "\n" + text)),
			Blocks: []slackBlock{{"header", slackText{Type: "plain_text", Text: head}}}}
		if text != "" {
			b.Blocks = append(b.Blocks, slackBlock{"section", slackText{Type: "plain_text", Text: text}})
		}
		return encode(b)
	case delivery.Discord:
		return encode(discordBody{Mentions: discordMentions{Parse: []string{}}, Embeds: []discordEmbed{{
			Title: escapeMarkdown.Replace(head), Description: escapeMarkdown.Replace(text),
			Color: colours[n.tone], Timestamp: n.at}}})
	case delivery.Telegram:
		html := strings.TrimSpace("<b>" + escapeHTML.Replace(head) + "</b>\n" + escapeHTML.Replace(text))
		return encode(telegramBody{ChatID: chatID(r.chatID), Text: html, Mode: "HTML",
			Preview: telegramPreview{Disabled: true}})
	case delivery.Ntfy:
		if text == "" {
			head, text = "agentsignal", head
		}
		return encode(ntfyBody{Topic: r.topic, Title: head, Message: text, Tags: emoji[n.tone]})
	default:
		return nil, fmt.Errorf("the format %q is not known", r.format)
	}
}

// encode returns v as JSON, without the escapes for HTML of encoding/json.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// chatID returns the identifier of a chat as Telegram wants it.
func chatID(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return text
}

// CheckChatID reports whether text may be the identifier of a chat of Telegram: a number, or @ and a name.
func CheckChatID(text string) bool {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
	}
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

// RetryAfter returns how long the service asks to wait in the body of an answer, where it has no header for
// it: Telegram in parameters.retry_after, Discord in retry_after, both in seconds. Otherwise it is 0.
func (r *Renderer) RetryAfter(status int, body string) time.Duration {
	const tooManyRequests = 429
	if status != tooManyRequests {
		return 0
	}
	var a struct {
		RetryAfter float64 `json:"retry_after"`
		Parameters struct {
			RetryAfter float64 `json:"retry_after"`
		} `json:"parameters"`
	}
	if json.Unmarshal([]byte(body), &a) != nil {
		return 0
	}
	seconds := 0.0
	switch r.format {
	case delivery.Telegram:
		seconds = a.Parameters.RetryAfter
	case delivery.Discord:
		seconds = a.RetryAfter
	default:
	}
	const day = 24 * 60 * 60
	return time.Duration(min(max(seconds, 0), day) * float64(time.Second))
}

// A chat service cannot answer a challenge by itself. A message with the token proves instead that the URL is one of
// such a service, and that it accepts the URL's secret: its answer has a form that no other
// endpoint has by accident and, except for Slack's, contains the message.

// Challenge returns the URL and the body of a message with a token.
func (r *Renderer) Challenge(token string) (to string, body []byte, err error) {
	if r.err != nil {
		return "", nil, r.err
	}
	to = r.to
	if u, err := url.Parse(to); err == nil && r.format == delivery.Discord { // else it answers without a body
		q := u.Query()
		q.Set("wait", "true")
		u.RawQuery = q.Encode()
		to = u.String()
	}
	body, err = r.chat(note{title: "agentsignal sends its messages here", lines: []string{token}})
	return to, body, err
}

// AnswersChallenge reports whether body is the service's answer to the message with the token.
func (r *Renderer) AnswersChallenge(body, token string) bool {
	var a struct {
		OK     bool `json:"ok"`
		Result struct {
			Text string `json:"text"`
		} `json:"result"`
		ID      string         `json:"id"`
		Embeds  []discordEmbed `json:"embeds"`
		Event   string         `json:"event"`
		Message string         `json:"message"`
	}
	if r.format == delivery.Slack {
		return strings.TrimSpace(body) == "ok"
	}
	if json.Unmarshal([]byte(body), &a) != nil {
		return false
	}
	switch r.format {
	case delivery.Discord:
		return a.ID != "" && len(a.Embeds) == 1 && strings.Contains(a.Embeds[0].Description, token)
	case delivery.Telegram:
		return a.OK && strings.Contains(a.Result.Text, token)
	case delivery.Ntfy:
		return a.ID != "" && a.Event == "message" && strings.Contains(a.Message, token)
	default:
		return false
	}
}
