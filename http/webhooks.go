package http

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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
	WebhookFinder
	// Webhooks returns all webhooks of an account, newest first.
	Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error)
	// ChangeWebhook replaces the stored webhook if it still has the revision of w, and
	// clears its failures if clearHealth is set. KindConflict, "webhook_changed": another
	// change came first.
	ChangeWebhook(ctx context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error)
	// RemoveWebhook removes a webhook with its deliveries. KindNotFound.
	RemoveWebhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) error
}

// WebhookFinder finds webhooks. See persistence/deliveries.
type WebhookFinder interface {
	// Webhook returns a webhook with its health and its revision. KindNotFound.
	Webhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error)
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

// WebhookOptions are what webhooks need.
type WebhookOptions struct {
	Webhooks   Webhooks
	Addresses  Addresses
	Challenges Challenges     // nil: endpoints are not challenged
	Assets     AssetSuggester // for filters
	Sealer     Sealer
	Once       *Idempotency
	Agents     *AgentCatalogue
	Log        *slog.Logger
	Now        func() time.Time
}

// WebhookHandlers answer for webhooks.
type WebhookHandlers struct {
	o      WebhookOptions
	reader webhookReader
}

// NewWebhookHandlers returns the handlers of webhooks.
func NewWebhookHandlers(o WebhookOptions) *WebhookHandlers {
	o.Log = o.Log.With("component", "http")
	return &WebhookHandlers{o, webhookReader{o.Addresses, o.Assets, o.Agents}}
}

// Routes implements Resource.
func (h *WebhookHandlers) Routes() []*Route {
	const scope = signal.WebhooksManage
	create := change(scope, h.create)
	create.secret = true
	return []*Route{
		route("/v1/webhooks", methods{"GET": get(scope, h.list, "status", "limit", "offset"), "POST": create}),
		route("/v1/webhooks/{id}", methods{"GET": get(scope, h.byID), "PATCH": change(scope, h.change),
			"DELETE": change(scope, checked(h.remove))}),
		route("/v1/webhooks/{id}/rotate-secret", methods{"POST": change(scope, h.rotateSecret)}),
	}
}

// webhookID reads the ID of a webhook. KindNotFound if it is malformed.
func webhookID(text string) (signal.WebhookID, error) {
	id, ok := signal.ParseWebhookID(text)
	if !ok {
		return "", signal.NotFound("webhook")
	}
	return id, nil
}

// create answers POST /v1/webhooks.
func (h *WebhookHandlers) create(c *call) error {
	checkIdempotencyKey(c.r.Header, &c.faults)
	body, err := c.body()
	if err != nil {
		return err
	}
	var in webhookInput
	if err := c.finish(request.ReadObject(body, &c.faults), func(o *request.Object) {
		o.Require("url", "must be an absolute URL that begins with https://")
		o.Require("events", request.SomeOf(delivery.WebhookEvents))
		in = h.reader.read(c, o)
		in.secret = readSecret(o)
		if err := message.CheckURL(in.format, in.url); err != nil && in.url != "" {
			o.Bad("url", request.CodeFormat, err.Error())
		}
	}); err != nil {
		return err
	}
	key := h.o.Once.key(c, body)
	if key == nil {
		return h.register(c, &in, nil)
	}
	return h.o.Once.replayOr(c, *key, func() error { return h.register(c, &in, key) }, nil)
}

// register stores a new webhook and answers. If the request has an Idempotency-Key,
// its answer is stored in the same step, so that no crash leads to a second webhook. It goes
// on if the client leaves.
func (h *WebhookHandlers) register(c *call, in *webhookInput, key *signal.ReplyKey) error {
	now := h.o.Now()
	w := delivery.Webhook{
		ID:         signal.NewWebhookID(),
		Account:    c.principal.Account,
		APIVersion: apiVersions[0].Name,
		Status:     delivery.WebhookEnabled,
		CreatedAt:  now,
		UpdatedAt:  now,
	}
	in.apply(&w, now)
	secret := in.secret
	if secret == "" {
		secret = delivery.NewSecret()
	}
	if err := h.challenge(c, &w, secret); err != nil {
		return err
	}
	w.Secret = h.o.Sealer.Seal([]byte(secret), string(w.ID))
	view := h.view(&w)
	view.Secret = secret
	answer, err := encode(view)
	if err != nil {
		return err
	}
	var kept *signal.Reply
	if key != nil {
		kept = h.o.Once.reply(c, *key, answer, false)
	}
	if _, err := h.o.Webhooks.Register(context.WithoutCancel(c.r.Context()), w, maxWebhooks, kept); err != nil {
		return urlFault(c, err)
	}
	h.logChange(c, "webhook created", w.ID)
	c.confirms = false // the answer shows what was stored and confirmed, and a secret that no other answer shows
	return c.json(http.StatusOK, answer)
}

// urlFault returns err as a fault of the body if the URL is a duplicate.
func urlFault(c *call, err error) error {
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
func (h *WebhookHandlers) challenge(c *call, w *delivery.Webhook, secret string) error {
	if h.o.Challenges == nil {
		return nil
	}
	if err := h.o.Webhooks.CheckRegistration(c.r.Context(), w, maxWebhooks); err != nil {
		return urlFault(c, err)
	}
	err := h.o.Challenges.Challenge(c.r.Context(), w, secret)
	if e, ok := errors.AsType[*signal.Error](err); ok && e.Kind == signal.KindInvalid {
		c.faults.Body("/url", e.Code, e.Message)
		return c.faults.Err()
	}
	return err
}

// checkChange checks another URL or format of the webhook that the path names, and challenges the URL.
func (h *WebhookHandlers) checkChange(c *call, in *webhookInput) error {
	if in.url == "" && in.format == "" {
		return nil
	}
	w, err := findWebhook(c, h.o.Webhooks, c.vars["id"])
	if err != nil {
		return err
	}
	in.checkChange(&w, &c.faults)
	if err := c.faults.Err(); err != nil || h.o.Challenges == nil {
		return err
	}
	before := w
	in.apply(&w, h.o.Now())
	if w.URL == before.URL && w.Format == before.Format {
		return nil
	}
	secret, err := h.o.Sealer.Open(w.Secret, string(w.ID))
	if err != nil {
		return err
	}
	return h.challenge(c, &w, string(secret))
}

// list answers GET /v1/webhooks.
func (h *WebhookHandlers) list(c *call) error {
	q := c.query
	status := request.Option(q, "status", delivery.WebhookStatuses)
	p := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	list, err := h.o.Webhooks.Webhooks(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(w delivery.Webhook) bool { return status != "" && w.Status != status })
	return c.encoded(encodeList("webhooks", request.Cut(p, list), h.view, p, len(list)))
}

// byID answers GET /v1/webhooks/{id}.
func (h *WebhookHandlers) byID(c *call) error {
	w, err := findWebhook(c, h.o.Webhooks, c.vars["id"])
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, h.view(&w))
}

// findWebhook returns a webhook of the account.
func findWebhook(c *call, webhooks WebhookFinder, id string) (delivery.Webhook, error) {
	parsed, err := webhookID(id)
	if err != nil {
		return delivery.Webhook{}, err
	}
	return webhooks.Webhook(c.r.Context(), c.principal.Account, parsed)
}

// change answers PATCH /v1/webhooks/{id}.
func (h *WebhookHandlers) change(c *call) error {
	var in webhookInput
	if err := c.decode(func(o *request.Object) {
		in = h.reader.read(c, o)
		in.status, _ = request.Choice(o, "status", delivery.WebhookStatuses)
	}); err != nil {
		return err
	}
	if err := h.checkChange(c, &in); err != nil {
		return err
	}
	w, err := h.update(c, "webhook changed", in.apply)
	if err != nil {
		return urlFault(c, err)
	}
	return c.value(http.StatusOK, h.view(&w))
}

// update changes the webhook that the path names with change, which reports whether it has
// changed anything, and logs what. It retries if another change comes first.
func (h *WebhookHandlers) update(
	c *call, what string, change func(w *delivery.Webhook, now time.Time) bool,
) (delivery.Webhook, error) {
	for range maxUpdates {
		w, err := findWebhook(c, h.o.Webhooks, c.vars["id"])
		if err != nil {
			return w, err
		}
		failing, now := w.Health, h.o.Now()
		if !change(&w, now) {
			return w, nil
		}
		w.UpdatedAt = now
		w, err = h.o.Webhooks.ChangeWebhook(c.r.Context(), w, failing != w.Health)
		if err == nil {
			h.logChange(c, what, w.ID)
		}
		if signal.CodeOf(err) != signal.CodeWebhookChanged {
			return w, err
		}
	}
	return delivery.Webhook{}, errBusyWebhook
}

// remove answers DELETE /v1/webhooks/{id}.
func (h *WebhookHandlers) remove(c *call) error {
	id, err := webhookID(c.vars["id"])
	if err != nil {
		return err
	}
	if err := h.o.Webhooks.RemoveWebhook(c.r.Context(), c.principal.Account, id); err != nil {
		return err
	}
	h.logChange(c, "webhook removed", id)
	return c.noContent()
}

// rotateSecret answers POST /v1/webhooks/{id}/rotate-secret.
func (h *WebhookHandlers) rotateSecret(c *call) error {
	var secret string
	if _, err := c.decodeOptional(func(o *request.Object) { secret = readSecret(o) }); err != nil {
		return err
	}
	if secret == "" {
		secret = delivery.NewSecret()
	}
	w, err := h.update(c, "webhook secret rotated", func(w *delivery.Webhook, now time.Time) bool {
		w.PreviousSecret, w.PreviousUntil = w.Secret, now.Add(secretOverlap)
		w.Secret = h.o.Sealer.Seal([]byte(secret), string(w.ID))
		return true
	})
	if err != nil {
		return err
	}
	c.confirms = false // as in register
	return c.value(http.StatusOK, secretView{w.ID, secret, instant(w.PreviousUntil)})
}

// logChange logs a change of a webhook by the caller, without the URL of the endpoint, which may
// hold a secret.
func (h *WebhookHandlers) logChange(c *call, what string, webhook signal.WebhookID) {
	attrs := []slog.Attr{slog.String("account", string(c.principal.Account)), slog.String("webhook", string(webhook))}
	if c.principal.Session != "" {
		attrs = append(attrs, slog.String("session", string(c.principal.Session)))
	} else {
		attrs = append(attrs, slog.String("key", string(c.principal.Key)))
	}
	attrs = append(attrs, slog.String("address", c.address), slog.String("request", c.id))
	h.o.Log.LogAttrs(c.r.Context(), slog.LevelInfo, what, attrs...)
}

// webhookView is a webhook. Its secret is only in the answer to its registration.
type webhookView struct {
	ID             signal.WebhookID         `json:"webhook_id"`
	URL            string                   `json:"url"`
	Events         []signal.EventType       `json:"events"`
	Description    *string                  `json:"description"`
	APIVersion     string                   `json:"api_version"`
	Format         delivery.Format          `json:"format"`
	ChatID         *string                  `json:"chat_id"`
	Template       *string                  `json:"template"`
	ContentType    *string                  `json:"content_type"`
	Filters        *filterView              `json:"filters"`
	MaxPerMinute   *int                     `json:"max_per_minute"`
	Status         delivery.WebhookStatus   `json:"status"`
	DisabledAt     instant                  `json:"disabled_at"`
	DisabledReason *delivery.DisabledReason `json:"disabled_reason"`
	FailingSince   instant                  `json:"failing_since"`
	HeldUntil      instant                  `json:"held_until"`
	CreatedAt      instant                  `json:"created_at"`
	UpdatedAt      instant                  `json:"updated_at"`
	Secret         string                   `json:"secret,omitempty"`
}

func (h *WebhookHandlers) view(w *delivery.Webhook) webhookView {
	held := w.Health.HeldUntil
	if !held.After(h.o.Now()) { // the next requests decide whether it waits again
		held = time.Time{}
	}
	return webhookView{
		ID:             w.ID,
		URL:            w.ShownURL(),
		Events:         list(w.Events),
		Description:    w.Description,
		APIVersion:     w.APIVersion,
		Format:         cmp.Or(w.Format, delivery.Standard),
		ChatID:         orNull(w.ChatID),
		Template:       orNull(w.Template),
		ContentType:    orNull(w.ContentType),
		Filters:        viewFilter(w.Filter),
		MaxPerMinute:   orNull(w.Rate()),
		Status:         w.Status,
		DisabledAt:     instant(w.DisabledAt),
		DisabledReason: orNull(w.DisabledReason),
		FailingSince:   instant(w.Health.FailingSince),
		HeldUntil:      instant(held),
		CreatedAt:      instant(w.CreatedAt),
		UpdatedAt:      instant(w.UpdatedAt),
	}
}

// secretView is the answer to a rotation of the secret.
type secretView struct {
	ID                      signal.WebhookID `json:"webhook_id"`
	Secret                  string           `json:"secret"`
	PreviousSecretExpiresAt instant          `json:"previous_secret_expires_at"`
}
