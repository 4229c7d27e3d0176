// Package message makes the bodies of requests of webhooks whose format is not standard: messages to chat
// services, and texts by templates of accounts. A body depends only on the event and the webhook, and takes
// a bounded time.
package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// MaxBytes is the maximum length of a text by a template.
const MaxBytes = 16 << 10

const (
	contentJSON = "application/json"
	// DefaultContentType is that of the texts of templates.
	DefaultContentType = "text/plain; charset=utf-8"
)

// Renderer makes the bodies of one webhook. It is immutable and safe for concurrent use.
type Renderer struct {
	format      delivery.Format
	to          string // the URL of requests
	contentType string
	chatID      string
	topic       string
	template    *Template
	err         error // why it makes no bodies
}

// New returns the renderer of w, or nil if its format is standard. One that was stored by a version with other
// rules may have a renderer that makes no bodies.
func New(w *delivery.Webhook) *Renderer {
	r := &Renderer{format: w.Format, to: w.URL, contentType: contentJSON, chatID: w.ChatID}
	switch w.Format {
	case "", delivery.Standard:
		return nil
	case delivery.Ntfy:
		r.to, r.topic, r.err = splitTopic(w.URL)
	case delivery.Template:
		r.contentType = w.ContentType
		if r.contentType == "" {
			r.contentType = DefaultContentType
		}
		r.template, r.err = ParseTemplate(w.Template)
	case delivery.Slack, delivery.Discord, delivery.Telegram:
	}
	return r
}

// URL returns where requests go: the URL of the webhook, except for ntfy, whose topics are in the body.
func (r *Renderer) URL() string { return r.to }

// ContentType returns the media type of the bodies.
func (r *Renderer) ContentType() string { return r.contentType }

// Render returns the body of a request for an event, whose envelope is given. The error is the reason for
// the account.
func (r *Renderer) Render(envelope []byte) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	e := map[string]any{}
	if err := json.Unmarshal(envelope, &e); err != nil {
		return nil, errors.New("the event is not readable")
	}
	if r.template == nil {
		return r.chat(describe(e))
	}
	text, err := r.template.Execute(e)
	if err != nil {
		return nil, err
	}
	if isJSON(r.contentType) && !json.Valid(text) {
		return nil, errors.New("the text is not JSON, as its content type says: write values with json")
	}
	return text, nil
}

// CheckURL returns why the URL cannot be that of a webhook of the format, or nil.
func CheckURL(f delivery.Format, text string) error {
	switch f {
	case delivery.Telegram:
		u, err := url.Parse(text)
		if err != nil || !strings.HasSuffix(u.Path, "/sendMessage") {
			return errors.New("must end in /sendMessage, as in https://api.telegram.org/botTOKEN/sendMessage")
		}
	case delivery.Ntfy:
		_, _, err := splitTopic(text)
		return err
	default:
	}
	return nil
}

// splitTopic splits the URL of a topic of ntfy into that of the server, with the query, and the topic.
func splitTopic(text string) (server, topic string, err error) {
	u, err := url.Parse(text)
	if err == nil {
		topic = strings.Trim(u.Path, "/")
	}
	if topic == "" || strings.Contains(topic, "/") {
		return "", "", errors.New("must be the URL of one topic, as in https://ntfy.sh/TOPIC")
	}
	u.Path, u.RawPath = "/", ""
	return u.String(), topic, nil
}

// isJSON reports whether texts of a media type are JSON.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	return media == contentJSON || strings.HasSuffix(media, "+json")
}

// number formats a number as people write it.
func number(x float64, decimals int) string { return fmt.Sprintf("%.*f", decimals, x) }
