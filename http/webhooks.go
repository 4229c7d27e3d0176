package http

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/http/request"
)

// Webhooks holds the endpoints that accounts have registered. See
// persistence/deliveries.
type Webhooks interface {
	// CheckRegistration returns the error with which w, or its new URL, would be refused
	// now: as Register does, and KindInvalid, "duplicate", if another webhook has the URL.
	CheckRegistration(ctx context.Context, w *delivery.Webhook, limit int) error
	// Register stores a new webhook, together with the answer if it is to be kept; nil: it
	// is not. KindConflict, "limit_reached": the account has limit of them.
	Register(ctx context.Context, w delivery.Webhook, limit int, answer *signal.Reply) (delivery.Webhook, error)
	// Webhook returns one with its health and its revision. KindNotFound.
	Webhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error)
	// Webhooks returns all of an account, newest first.
	Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error)
	// ChangeWebhook stores w in the place of its revision, and forgets how it has
	// failed if clearHealth is set. KindConflict, "webhook_changed": another change
	// came first.
	ChangeWebhook(ctx context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error)
	// RemoveWebhook drops one with its deliveries. KindNotFound.
	RemoveWebhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) error
}

// Sealer encrypts what must not be stored as it is. What was sealed for a purpose
// opens for no other. See webhook.Keyring.
type Sealer interface {
	Seal(plain []byte, purpose string) []byte
	Open(sealed []byte, purpose string) ([]byte, error)
	// Digests returns at least one digest of data for a purpose, which cannot be made
	// without the keys: by the present key, then by former ones.
	Digests(data []byte, purpose string) [][32]byte
}

// Addresses knows where deliveries may be sent. See webhook.Guard.
type Addresses interface {
	// CheckURL returns nil for a URL that may be registered, else one *signal.Error for
	// each fault, joined by errors.Join. Their codes are those of single faults, such
	// as url_not_allowed and https_required.
	CheckURL(ctx context.Context, url string) error
}

// Challenges asks endpoints for a proof that they take deliveries. See webhook.Node.
type Challenges interface {
	// Challenge returns nil if the URL of w, a webhook that is not stored yet, has answered
	// a request that secret signs. KindInvalid, "url_not_allowed": it has not.
	Challenge(ctx context.Context, w *delivery.Webhook, secret string) error
}

const (
	// maxWebhooks is how many an account may have.
	maxWebhooks = 100
	// secretOverlap is how long a secret signs on after it was replaced.
	secretOverlap = 24 * time.Hour
	// maxUpdates is how often a change is tried when others come first.
	maxUpdates = 5
)

// errBusyWebhook refuses a change before which others have always come.
var errBusyWebhook = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", RetryAfter: time.Second,
	Message: "too many requests change this webhook at once"}

// webhookID returns the webhook that the path names, or KindNotFound for a
// malformed name.
func (c *call) webhookID() (signal.WebhookID, error) {
	id, ok := signal.ParseWebhookID(c.vars["id"])
	if !ok {
		return "", signal.NotFound("webhook")
	}
	return id, nil
}

// createWebhook answers POST /v1/webhooks.
func (s *Server) createWebhook(c *call) error {
	checkIdempotencyKey(c.r.Header, &c.faults)
	body, err := c.body()
	if err != nil {
		return err
	}
	var in webhookInput
	if err := c.finish(request.ReadObject(body, &c.faults), func(o *request.Object) {
		o.Require("url", "must be an absolute URL that begins with https://")
		o.Require("events", request.SomeOf(delivery.WebhookEvents))
		in = s.readWebhook(c, o)
		in.secret = readSecret(o)
	}); err != nil {
		return err
	}
	key := s.replyKey(c, body)
	if key == nil {
		return s.registerWebhook(c, &in, nil)
	}
	return s.replayOr(c, c.principal.Account, *key, func() error { return s.registerWebhook(c, &in, key) }, nil)
}

// registerWebhook stores a new webhook and answers. Where the request has a key its answer is
// stored in the same step, so that no crash in between makes a second webhook of it. A
// client that goes away ends nothing.
func (s *Server) registerWebhook(c *call, in *webhookInput, key *signal.ReplyKey) error {
	now := s.o.Now()
	w := delivery.Webhook{
		ID:         signal.NewWebhookID(),
		Account:    c.principal.Account,
		APIVersion: s.versions[0].Name,
		Status:     delivery.WebhookEnabled,
		CreatedAt:  now,
		UpdatedAt:  now,
	}
	in.apply(&w, now)
	secret := in.secret
	if secret == "" {
		secret = delivery.NewSecret()
	}
	if err := s.challenge(c, &w, secret); err != nil {
		return err
	}
	w.Secret = s.o.Sealer.Seal([]byte(secret), string(w.ID))
	view := viewWebhook(&w)
	view.Secret = secret
	answer, err := encode(view)
	if err != nil {
		return err
	}
	var kept *signal.Reply
	if key != nil {
		kept = s.reply(c, *key, answer, false)
	}
	if _, err := s.o.Webhooks.Register(context.WithoutCancel(c.r.Context()), w, maxWebhooks, kept); err != nil {
		return c.urlFault(err)
	}
	s.audit(c, "webhook created", w.ID)
	return c.json(http.StatusOK, answer)
}

// urlFault returns err, or the fault of the body that it is.
func (c *call) urlFault(err error) error {
	if signal.CodeOf(err) != signal.CodeDuplicateURL {
		return err
	}
	c.faults.Body("/url", request.CodeDuplicate,
		"another webhook of the account has this URL: change that one, or give this one another URL")
	return c.faults.Err()
}

// challenge asks the URL of w for a proof where the operator wants one. A receiver gets no
// request for a webhook that would be refused anyway.
func (s *Server) challenge(c *call, w *delivery.Webhook, secret string) error {
	if s.o.Challenges == nil {
		return nil
	}
	if err := s.o.Webhooks.CheckRegistration(c.r.Context(), w, maxWebhooks); err != nil {
		return c.urlFault(err)
	}
	err := s.o.Challenges.Challenge(c.r.Context(), w, secret)
	if e, ok := errors.AsType[*signal.Error](err); ok && e.Kind == signal.KindInvalid {
		c.faults.Body("/url", e.Code, e.Message)
		return c.faults.Err()
	}
	return err
}

// challengeChange asks the URL that a webhook is to get for a proof.
func (s *Server) challengeChange(c *call, url string) error {
	if s.o.Challenges == nil || url == "" {
		return nil
	}
	w, err := s.webhook(c)
	if err != nil || w.URL == url {
		return err
	}
	secret, err := s.o.Sealer.Open(w.Secret, string(w.ID))
	if err != nil {
		return err
	}
	w.URL = url
	return s.challenge(c, &w, string(secret))
}

// listWebhooks answers GET /v1/webhooks.
func (s *Server) listWebhooks(c *call) error {
	q := c.query
	status := request.Option(q, "status", delivery.WebhookStatuses)
	p := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	list, err := s.o.Webhooks.Webhooks(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(w delivery.Webhook) bool { return status != "" && w.Status != status })
	return c.encoded(encodeList("webhooks", request.Cut(p, list), viewWebhook, p, len(list)))
}

// webhookByID answers GET /v1/webhooks/{id}.
func (s *Server) webhookByID(c *call) error {
	w, err := s.webhook(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewWebhook(&w))
}

// webhook returns the webhook that the path names, if the values of the request are
// in order.
func (s *Server) webhook(c *call) (delivery.Webhook, error) {
	if err := c.faults.Err(); err != nil {
		return delivery.Webhook{}, err
	}
	id, err := c.webhookID()
	if err != nil {
		return delivery.Webhook{}, err
	}
	return s.o.Webhooks.Webhook(c.r.Context(), c.principal.Account, id)
}

// changeWebhook answers PATCH /v1/webhooks/{id}.
func (s *Server) changeWebhook(c *call) error {
	var in webhookInput
	if err := c.decode(func(o *request.Object) {
		in = s.readWebhook(c, o)
		in.status, _ = request.Choice(o, "status", delivery.WebhookStatuses)
	}); err != nil {
		return err
	}
	if err := s.challengeChange(c, in.url); err != nil {
		return err
	}
	w, err := s.update(c, "webhook changed", in.apply)
	if err != nil {
		return c.urlFault(err)
	}
	return c.value(http.StatusOK, viewWebhook(&w))
}

// update changes the webhook that the path names by change, which reports whether
// anything has changed. If another change comes first, it is made again. The
// log names what was done.
func (s *Server) update(c *call, what string,
	change func(w *delivery.Webhook, now time.Time) bool) (delivery.Webhook, error) {
	for range maxUpdates {
		w, err := s.webhook(c)
		if err != nil {
			return w, err
		}
		failing, now := w.Health, s.o.Now()
		if !change(&w, now) {
			return w, nil
		}
		w.UpdatedAt = now
		w, err = s.o.Webhooks.ChangeWebhook(c.r.Context(), w, failing != w.Health)
		if err == nil {
			s.audit(c, what, w.ID)
		}
		if signal.CodeOf(err) != signal.CodeWebhookChanged {
			return w, err
		}
	}
	return delivery.Webhook{}, errBusyWebhook
}

// removeWebhook answers DELETE /v1/webhooks/{id}.
func (s *Server) removeWebhook(c *call) error {
	if err := c.faults.Err(); err != nil {
		return err
	}
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	if err := s.o.Webhooks.RemoveWebhook(c.r.Context(), c.principal.Account, id); err != nil {
		return err
	}
	s.audit(c, "webhook removed", id)
	return c.noContent()
}

// rotateSecret answers POST /v1/webhooks/{id}/rotate-secret.
func (s *Server) rotateSecret(c *call) error {
	o, err := c.optionalObject()
	if err != nil {
		return err
	}
	var secret string
	if err := c.finish(o, func(o *request.Object) { secret = readSecret(o) }); err != nil {
		return err
	}
	if secret == "" {
		secret = delivery.NewSecret()
	}
	w, err := s.update(c, "webhook secret rotated", func(w *delivery.Webhook, now time.Time) bool {
		w.PreviousSecret, w.PreviousUntil = w.Secret, now.Add(secretOverlap)
		w.Secret = s.o.Sealer.Seal([]byte(secret), string(w.ID))
		return true
	})
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, secretView{w.ID, secret, instant(w.PreviousUntil)})
}
