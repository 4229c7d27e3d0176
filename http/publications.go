package http

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Publications keeps how accounts show their records. See credentials.Publications.
type Publications interface {
	// Publish stores it. KindConflict: "slug_taken", "limit_reached".
	Publish(ctx context.Context, p credential.Publication) error
	Publication(ctx context.Context, account signal.AccountID) (credential.Publication, error)
}

// PublicationHandlers answer for how an account shows its record.
type PublicationHandlers struct{ publications Publications }

// NewPublicationHandlers returns the handlers of publications.
func NewPublicationHandlers(p Publications) *PublicationHandlers { return &PublicationHandlers{p} }

// Routes implements Resource. What they show is confirmed where it is read and stored.
func (h *PublicationHandlers) Routes() []*Route {
	return []*Route{route("/v1/account/public", methods{
		"GET": {guard: jwtOnly, class: limits.Reads, handle: checked(h.get)},
		"PUT": {guard: jwtOnly, class: limits.Writes, handle: h.put},
	})}
}

const (
	recordPath = "/r/" // in front of a slug
	slugRule   = "must be 3 to 40 lower-case letters, digits and hyphens, and begin with a letter"
	maxTitle   = 80 // characters
	titleRule  = "must be a text for the head of the page"
	// publicationNotice is what an account must know before it makes its record public.
	publicationNotice = "While it is enabled, anyone reads without a credential what the agents of the account did. That " +
		"publishes the id of the account and the salt of its leaves, which cannot be taken back. A slug is never free again."
)

// reservedSlugs are not for accounts: their pages would look like those of the service.
var reservedSlugs = []string{"about", "account", "admin", "agentsignal", "api", "auth", "dashboard", "demo", "docs", "favicon",
	"help", "index", "log", "login", "metrics", "official", "problems", "public", "record", "records", "robots", "search",
	"security", "service", "signal", "signals", "sitemap", "static", "status", "support", "system", "verify", "www"}

type publicationView struct {
	Slug     *string `json:"slug"`
	Title    *string `json:"title"`
	Enabled  bool    `json:"enabled"`
	ShowOpen bool    `json:"show_open"`
	URL      *string `json:"url"`
	Notice   string  `json:"notice"`
}

func viewPublication(p credential.Publication, base string) publicationView {
	v := publicationView{Slug: orNull(p.Slug), Title: orNull(p.Title), Enabled: p.Enabled, ShowOpen: p.ShowOpen,
		Notice: publicationNotice}
	if p.Slug != "" {
		v.URL = new(base + recordPath + p.Slug)
	}
	return v
}

// get answers GET /v1/account/public.
func (h *PublicationHandlers) get(c *call) error {
	p, err := h.publications.Publication(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewPublication(p, c.base()))
}

// put answers PUT /v1/account/public.
func (h *PublicationHandlers) put(c *call) error {
	p := credential.Publication{Account: c.principal.Account}
	if err := c.decode(func(o *request.Object) {
		p.Slug = o.Given("slug", slugRule)
		switch {
		case p.Slug == "":
		case !credential.IsSlug(p.Slug):
			o.Bad("slug", request.CodeFormat, slugRule)
		case slices.Contains(reservedSlugs, p.Slug):
			o.Bad("slug", request.CodeInvalidValue, "is reserved for the service: choose another")
		}
		given := o.Given("title", titleRule)
		p.Title = strings.TrimSpace(given)
		if code, detail := request.CheckText(p.Title, maxTitle); given != "" && code != "" {
			o.Bad("title", code, detail)
		}
		p.Enabled, _ = o.Bool("enabled")
		p.ShowOpen, _ = o.Bool("show_open")
	}); err != nil {
		return err
	}
	if err := h.publications.Publish(c.client(), p); err != nil {
		return err
	}
	return c.value(http.StatusOK, viewPublication(p, c.base()))
}
