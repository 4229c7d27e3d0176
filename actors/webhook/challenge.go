package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/message"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// EventChallenge is the type of the request by which an endpoint proves that it accepts
// deliveries. It is in no log and no list of deliveries.
const EventChallenge signal.EventType = "webhook.challenge"

// challengeTimeout bounds a challenge, including the wait for a slot.
const challengeTimeout = 10 * time.Second

// Challenge sends a random token, signed with secret, to the URL of w, which is not stored
// yet. It returns nil if the endpoint answers 2xx with the token, as text or as the member
// challenge of an object, or if w has a chat format and the endpoint answers a message with the token as the
// service does; otherwise KindInvalid with code "url_not_allowed". It returns
// KindUnavailable if the limiter had no slot for the request.
func (n *Node) Challenge(ctx context.Context, w *delivery.Webhook, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, challengeTimeout)
	defer cancel()
	token, now, id := rand.Text(), n.now(), signal.NewEventID()
	url, answers := w.URL, answersChallenge
	body := AppendBody(nil, id, EventChallenge, w.APIVersion, now, []byte(`{"challenge":"`+token+`"}`))
	must := `it must answer the POST of type ` + string(EventChallenge) +
		` with 2xx and the value of data.challenge as its body, or as {"challenge": "…"}`
	if w.Format.Chat() {
		messages := message.New(w)
		to, text, err := messages.Challenge(token)
		if err != nil {
			return &signal.Error{Kind: signal.KindInvalid, Code: guard.CodeNotAllowed, Message: err.Error()}
		}
		url, body, answers = to, text, messages.AnswersChallenge
		must = "it must take a message as " + string(w.Format) + " does"
	}
	to := sender.NewDestination(url, secret)
	s, err := n.await(ctx, w.Account, to.HostName, fastClass)
	if err != nil {
		return err
	}
	defer n.limiter.release(s)
	result := n.sender.Send(ctx, sender.Request{
		To:       to,
		Body:     body,
		Event:    id,
		Type:     EventChallenge,
		Delivery: signal.DeliveryIDOf(id, w.ID),
		Attempt:  1,
		At:       now,
	})
	why := result.Error
	switch {
	case result.Cancelled():
		why = fmt.Sprintf("no answer within %v", challengeTimeout)
	case why == "" && !answers(result.Body, token):
		why = "the answer does not have the token"
	}
	if !result.Cancelled() {
		n.options.Metrics.attempted(&result)
	}
	if why == "" {
		return nil
	}
	return &signal.Error{Kind: signal.KindInvalid, Code: guard.CodeNotAllowed,
		Message: "the endpoint has not answered the challenge: " + why + "; " + must}
}

// ChallengeOf returns the token to answer a challenge with, or "" if body is not a challenge.
func ChallengeOf(body []byte) string {
	var e struct {
		Type signal.EventType `json:"type"`
		Data struct {
			Challenge string `json:"challenge"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &e) != nil || e.Type != EventChallenge {
		return ""
	}
	return e.Data.Challenge
}

// answersChallenge reports whether body is token, or an object with the token as challenge.
// An endpoint that only echoes the request does not pass.
func answersChallenge(body, token string) bool {
	if strings.TrimSpace(body) == token {
		return true
	}
	var answer struct {
		Challenge string `json:"challenge"`
	}
	return json.Unmarshal([]byte(body), &answer) == nil && answer.Challenge == token
}
