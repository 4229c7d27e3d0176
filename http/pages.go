package http

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/http/pages"
)

//go:embed openapi.yaml
var openAPI []byte

//go:embed asyncapi.yaml
var asyncAPI []byte

// openAPIJSON returns openAPI in JSON. It is made for a server only, so that commands start sooner.
var openAPIJSON = sync.OnceValue(func() []byte {
	var v any
	if err := yaml.Unmarshal(openAPI, &v); err != nil {
		panic("read openapi.yaml: " + err.Error())
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("encode openapi.yaml: " + err.Error())
	}
	return b
})

var (
	pagePolicy = []string{pages.Policy}
	pageType   = []string{pages.HTML}
	// headerCached is for answers that change only with the service's version.
	headerCached = []string{"public, max-age=300"}
)

// PageHandlers answer with the descriptions of the API and the pages for people.
type PageHandlers struct{ pages *pages.Pages }

// NewPageHandlers returns the handlers of pages.
func NewPageHandlers() *PageHandlers {
	problems := views(problemKinds, func(p *problemKind) pages.Problem { return pages.Problem(*p) })
	return &PageHandlers{pages.New(problems, asyncAPI)}
}

// Routes implements Resource.
func (h *PageHandlers) Routes() []*Route {
	routes := pageRoutes(map[string]func(*call) error{
		"/docs": h.docs, "/docs/{file}": h.docsFile, "/problems": h.problems, "/problems/{code}": h.problem})
	for path, d := range map[string]*document{
		"/v1/openapi.json":  {types: []string{typeJSON}, plain: openAPIJSON()},
		"/v1/openapi.yaml":  {types: []string{typeYAML}, plain: openAPI},
		"/v1/asyncapi.yaml": {types: []string{typeYAML}, plain: asyncAPI},
	} {
		r := route(path, open(func(c *call) error {
			c.Header()["Cache-Control"] = headerCached
			return c.document(d)
		}))
		r.cached = true
		routes = append(routes, r)
	}
	return routes
}

// pageRoutes returns the routes of pages.
func pageRoutes(pages map[string]func(*call) error) []*Route {
	var routes []*Route
	for path, handle := range pages {
		r := route(path, anyQuery(open(handle)))
		r.cached, r.page = true, true
		routes = append(routes, r)
	}
	return routes
}

// answerPage answers with a page.
func answerPage(c *call, contentType []string, body []byte, err error) error {
	if err != nil {
		return err
	}
	c.Header()["Content-Security-Policy"] = pagePolicy
	c.Header()["Cache-Control"] = headerCached
	return c.send(http.StatusOK, contentType, body)
}

// docs answers GET /docs: the API's description in Swagger UI.
func (h *PageHandlers) docs(c *call) error {
	page, _, err := h.pages.Document("index.html")
	return answerPage(c, pageType, page, err)
}

// docsFile answers GET /docs/{file}.
func (h *PageHandlers) docsFile(c *call) error {
	name := c.vars["file"]
	if files := pages.Swagger(name); files != nil {
		c.Header()["Content-Security-Policy"] = pagePolicy
		c.Header()["Cache-Control"] = headerCached
		files.ServeHTTP(c, c.r)
		return nil
	}
	page, mediaType, err := h.pages.Document(name)
	if err == nil && (page == nil || name == "index.html") { // a page has one address
		return errNotFound
	}
	return answerPage(c, []string{mediaType}, page, err)
}

// problem answers GET /problems/{code}, to which the type of an error document refers.
func (h *PageHandlers) problem(c *call) error {
	page, err := h.pages.Problem(c.vars["code"])
	if err == nil && page == nil {
		return notFound("problem", "/problems lists all")
	}
	return answerPage(c, pageType, page, err)
}

// problems answers GET /problems.
func (h *PageHandlers) problems(c *call) error {
	page, err := h.pages.Problems()
	return answerPage(c, pageType, page, err)
}
