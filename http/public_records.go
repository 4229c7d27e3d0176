package http

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/recordpage"
)

// PublicationFinder finds out which records are public. See credentials.Authenticator.
type PublicationFinder interface {
	// PublicationBySlug returns how the record at a slug is shown. KindNotFound: none is there, with the code record_gone if
	// none ever will be.
	PublicationBySlug(ctx context.Context, slug string) (credential.Publication, error)
}

// PublicRecords has the files of public records. See recordpage.Cache.
type PublicRecords interface {
	// Get returns the files of a record that is shown as p, and whether they were there.
	Get(ctx context.Context, p credential.Publication) (files *recordpage.Files, hit bool, err error)
	// Forget drops those of a slug.
	Forget(slug string)
}

// PublicRecordHandlers answer everyone with the records that accounts show.
type PublicRecordHandlers struct {
	publications PublicationFinder
	records      PublicRecords
	robots       []string // the header X-Robots-Tag; nil: none
}

// NewPublicRecordHandlers returns the handlers of public records. robots tells search engines what they may do with the
// pages; empty: what they want.
func NewPublicRecordHandlers(p PublicationFinder, records PublicRecords, robots string) *PublicRecordHandlers {
	h := &PublicRecordHandlers{publications: p, records: records}
	if robots != "" {
		h.robots = []string{robots}
	}
	return h
}

// Routes implements Resource. What they show rests on a confirmed checkpoint.
func (h *PublicRecordHandlers) Routes() []*Route {
	file := func(path string, of func(*recordpage.Files) *recordpage.File) *Route {
		return h.route(path, func(c *call, f *recordpage.Files) error { return answerFile(c, of(f)) })
	}
	return []*Route{
		file("/r/{slug}.json", func(f *recordpage.Files) *recordpage.File { return f.JSON }),
		file("/r/{slug}", func(f *recordpage.Files) *recordpage.File { return f.Page }),
		file("/r/{slug}/badge.svg", func(f *recordpage.Files) *recordpage.File { return f.Badge }),
		file("/r/{slug}/feed.xml", func(f *recordpage.Files) *recordpage.File { return f.Feed }),
		h.route("/r/{slug}/proof/{signal_id}", proveShown),
	}
}

// headerRevalidate has caches ask before they use what they keep: a record may have been switched off since.
var headerRevalidate = []string{"public, no-cache"}

// recordPolicy is the Content-Security-Policy of pages of records.
var recordPolicy = []string{recordpage.Policy}

// route returns the route of a file of records.
func (h *PublicRecordHandlers) route(path string, answer func(*call, *recordpage.Files) error) *Route {
	r := route(path, methods{http.MethodGet: {class: limits.Pages, anyQuery: true, handle: checked(func(c *call) error {
		files, err := h.find(c)
		if err != nil {
			return h.refuse(c, err)
		}
		c.Header()["Cache-Control"] = headerRevalidate
		return answer(c, files)
	})}})
	r.cached, r.page = true, true
	return r
}

// find returns the files of the record that the path names.
func (h *PublicRecordHandlers) find(c *call) (*recordpage.Files, error) {
	ctx, slug := c.r.Context(), c.vars["slug"]
	if !credential.IsSlug(slug) {
		return nil, signal.NotFound("record")
	}
	h.setHeaders(c)
	p, err := h.publications.PublicationBySlug(ctx, slug)
	if err != nil {
		if signal.KindOf(err) == signal.KindNotFound {
			h.records.Forget(slug)
		}
		return nil, err
	}
	files, hit, err := h.records.Get(ctx, p)
	c.server.o.Metrics.publicRecord(hit)
	return files, err
}

// setHeaders sets the headers of every answer with a record.
func (h *PublicRecordHandlers) setHeaders(c *call) {
	header := c.Header()
	header["Content-Security-Policy"] = recordPolicy
	if h.robots != nil {
		header["X-Robots-Tag"] = h.robots
	}
}

// refuse answers a browser that asks for a record that is not there with a page, and returns err for all others.
func (h *PublicRecordHandlers) refuse(c *call, err error) error {
	c.Header().Add("Vary", "Accept")
	if signal.KindOf(err) != signal.KindNotFound || !strings.Contains(c.r.Header.Get("Accept"), "text/html") {
		return err
	}
	h.setHeaders(c)
	c.Header()["Cache-Control"] = headerNoStore
	gone, status := signal.CodeOf(err) == "record_gone", http.StatusNotFound
	if gone {
		status = http.StatusGone
	}
	c.err = err
	return c.send(status, pageType, recordpage.Missing(gone))
}

// answerFile answers with a file, unless the client has it.
func answerFile(c *call, f *recordpage.File) error {
	h, body := c.Header(), f.Text
	h["Etag"] = []string{f.Tag}
	h.Add("Vary", "Accept-Encoding")
	if strings.Contains(c.r.Header.Get("If-None-Match"), f.Tag) {
		c.WriteHeader(http.StatusNotModified)
		return nil
	}
	if takesGzip(c.r.Header["Accept-Encoding"]) {
		h["Content-Encoding"] = headerGzip
		body = f.Gzipped
	}
	h["Content-Type"] = []string{f.Type}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(body) // fails if the client has left
	return nil
}

var headerGzip = []string{"gzip"}

// proveShown answers GET /r/{slug}/proof/{signal_id}.
func proveShown(c *call, f *recordpage.Files) error {
	var text []byte
	if id, ok := signal.ParseSignalID(c.vars["signal_id"]); ok {
		text = f.Proof(id)
	}
	if text == nil {
		return notFound("signal", "there are proofs of those that the page shows")
	}
	return c.send(http.StatusOK, headerText, text)
}
