// Package pages has the pages for people: the documentation of the API and of its error documents. They have no
// inline script or style, so that a strict Content-Security-Policy holds.
package pages

import (
	"embed"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync"

	swaggerui "github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"

	"github.com/agentsignal/agentsignal/actors/template"
)

//go:embed docs
var files embed.FS

// Policy is the Content-Security-Policy of the pages.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// HTML is the media type of pages.
const HTML = "text/html; charset=utf-8"

// Problem is a kind of error document. Code is its stable name.
type Problem struct {
	Code   string
	Status int
	Title  string
	When   string // it occurs
}

// Slug is the code of a problem in a path.
func Slug(code string) string { return strings.ReplaceAll(code, "_", "-") }

// Pages makes the pages.
type Pages struct {
	problems []Problem
	stream   func() streamPage
}

// New returns the pages of kinds of problems and of the stream that asyncAPI describes.
func New(problems []Problem, asyncAPI []byte) *Pages {
	// At the first request, since most commands show none.
	return &Pages{problems, sync.OnceValue(func() streamPage { return newStreamPage(asyncAPI) })}
}

// types has the media types of the files beside the page of the API.
var types = map[string]string{
	"agent.html": HTML,
	"index.html": HTML,
	"start.html": HTML,
	"init.js":    "text/javascript; charset=utf-8",
	"risks.js":   "text/javascript; charset=utf-8",
	"style.css":  "text/css; charset=utf-8",
}

// Document returns a file of the documentation and its media type, or nil if there is none.
func (p *Pages) Document(name string) (text []byte, mediaType string, err error) {
	if name == "stream.html" {
		text, err = fill(name, p.stream())
		return text, HTML, err
	}
	mediaType, known := types[name]
	if !known {
		return nil, "", nil
	}
	if text, err = files.ReadFile("docs/" + name); err != nil {
		return nil, "", fmt.Errorf("read page: %w", err)
	}
	return text, mediaType, nil
}

// swagger has the files of Swagger UI.
var swagger = http.StripPrefix("/docs", statigz.FileServer(swaggerui.FS))

// Swagger returns the handler of a file of Swagger UI, or nil if the page of the API does not need it.
func Swagger(name string) http.Handler {
	switch name {
	case "swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png", "favicon-16x16.png":
		return swagger
	}
	return nil
}

// Problem returns the page of a kind of problem by its slug, or nil if there is none.
func (p *Pages) Problem(slug string) ([]byte, error) {
	for _, problem := range p.problems {
		if Slug(problem.Code) == slug {
			return fill("problem.html", problem)
		}
	}
	return nil, nil
}

// Problems returns the page that lists all kinds of problems.
func (p *Pages) Problems() ([]byte, error) { return fill("problems.html", p.problems) }

// fill returns the page of a template with data.
func fill(name string, data any) ([]byte, error) {
	text, err := files.ReadFile("docs/" + name)
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	t, err := template.Parse(string(text), template.Options{Data: "the page", Escape: html.EscapeString,
		Functions: map[string]template.Function{"slug": template.Unary(Slug)}})
	if err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	values, err := template.Values(data)
	if err != nil {
		return nil, fmt.Errorf("encode page: %w", err)
	}
	if text, err = t.Execute(values); err != nil {
		return nil, fmt.Errorf("fill page: %w", err)
	}
	return text, nil
}
