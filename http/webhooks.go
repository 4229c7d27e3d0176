package http

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/message"
	"github.com/agentsignal/agentsignal/http/request"
)

// Webhooks holds the webhooks of accounts. See persistence/deliveries.
type Webhooks interface {
	// CheckRegistration returns the error with which w, or its new URL, would be refused
	// now: that of Register, or KindInvalid, "duplicate", if another webhook has the URL.
	CheckRegistration(ctx context.Context, w *delivery.Webhook, limit int) error
	// Register stores a new webhook and, unless it is nil, the answer to repeated requests.
	// KindConflict, "limit_reached": the account has limit webhooks.
	Register(ctx context.Context, w delivery.Webhook, limit int, answer *signal.Reply) (delivery.Webhook, error)
	// Webhook returns a webhook with its health and its revision. KindNotFound.
	Webhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error)
	// Webhooks returns all webhooks of an account, newest first.
	Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error)
	// ChangeWebhook replaces the stored webhook if it still has the revision of w, and
	// clears its failures if clearHealth is set. KindConflict, "webhook_changed": another
	// change came first.
	ChangeWebhook(ctx context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error)
	// RemoveWebhook removes a webhook with its deliveries. KindNotFound.
	RemoveWebhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) error
}

// Addresses decides where deliveries may be sent. See guard.Guard.
type Addresses interface {
	// CheckURL returns nil for a URL that may be registered. Otherwise it returns one
	// *signal.Error for each fault, joined by errors.Join, with codes such as
	// url_not_allowed and https_required.
	CheckURL(ctx context.Context, url string) error
}

// Challenges checks that endpoints accept deliveries. See webhook.Node.
type Challenges interface {
	// Challenge sends a challenge that secret signs to the URL of w, which is not stored
	// yet. KindInvalid, "url_not_allowed": the endpoint did not answer it.
	Challenge(ctx context.Context, w *delivery.Webhook, secret string) error
}

const (
	maxWebhooks   = 100            // of an account
	secretOverlap = 24 * time.Hour // for which a replaced secret still signs
	maxUpdates    = 5              // attempts at a change that loses to concurrent ones
)

// errBusyWebhook refuses a change that always lost to concurrent ones.
var errBusyWebhook = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", RetryAfter: time.Second,
	Message: "too many requests change this webhook at once"}

// webhookID returns the ID in the path, or KindNotFound if it is malformed.
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
		if err := message.CheckURL(in.format, in.url); err != nil && in.url != "" {
			o.Bad("url", request.CodeFormat, err.Error())
		}
	}); err != nil {
		return err
	}
	key := s.replyKey(c, body)
	if key == nil {
		return s.registerWebhook(c, &in, nil)
	}
	return s.replayOr(c, *key, func() error { return s.registerWebhook(c, &in, key) }, nil)
}

// registerWebhook stores a new webhook and answers. If the request has an Idempotency-Key,
// its answer is stored in the same step, so that no crash leads to a second webhook. It goes
// on if the client leaves.
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
	view := s.viewWebhook(&w)
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
	c.confirms = false // the answer shows what was stored and confirmed, and a secret that no other answer shows
	return c.json(http.StatusOK, answer)
}

// urlFault returns err as a fault of the body if the URL is a duplicate.
func (c *call) urlFault(err error) error {
	if signal.CodeOf(err) != signal.CodeDuplicateURL {
		return err
	}
	if err := c.confirm(); err != nil { // the other one may be of a request that was answered 503
		return err
	}
	c.faults.Body("/url", request.CodeDuplicate,
		"another webhook of the account has this URL: change that one, or give this one another URL")
	return c.faults.Err()
}

// challenge challenges the URL of w if the operator requires that. An endpoint gets no
// challenge for a webhook that would be refused anyway.
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

// checkChange checks another URL or format of the webhook that the path names, and challenges the URL.
func (s *Server) checkChange(c *call, in *webhookInput) error {
	if in.url == "" && in.format == "" {
		return nil
	}
	w, err := s.webhook(c)
	if err != nil {
		return err
	}
	in.checkChange(&w, &c.faults)
	if err := c.faults.Err(); err != nil || s.o.Challenges == nil {
		return err
	}
	before := w
	in.apply(&w, s.o.Now())
	if w.URL == before.URL && w.Format == before.Format {
		return nil
	}
	secret, err := s.o.Sealer.Open(w.Secret, string(w.ID))
	if err != nil {
		return err
	}
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
	return c.encoded(encodeList("webhooks", request.Cut(p, list), s.viewWebhook, p, len(list)))
}

// webhookByID answers GET /v1/webhooks/{id}.
func (s *Server) webhookByID(c *call) error {
	w, err := s.webhook(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, s.viewWebhook(&w))
}

// webhook returns the webhook that the path names.
func (s *Server) webhook(c *call) (delivery.Webhook, error) {
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
	if err := s.checkChange(c, &in); err != nil {
		return err
	}
	w, err := s.update(c, "webhook changed", in.apply)
	if err != nil {
		return c.urlFault(err)
	}
	return c.value(http.StatusOK, s.viewWebhook(&w))
}

// update changes the webhook that the path names with change, which reports whether it has
// changed anything, and logs what. It retries if another change comes first.
func (s *Server) update(
	c *call, what string, change func(w *delivery.Webhook, now time.Time) bool,
) (delivery.Webhook, error) {
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
	var secret string
	if _, err := c.decodeOptional(func(o *request.Object) { secret = readSecret(o) }); err != nil {
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
	c.confirms = false // as in registerWebhook
	return c.value(http.StatusOK, secretView{w.ID, secret, instant(w.PreviousUntil)})
}
