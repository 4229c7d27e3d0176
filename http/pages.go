package http

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	swaggerui "github.com/swaggest/swgui/v5emb"
	"go.yaml.in/yaml/v3"
)

// The descriptions and pages for people. Pages have no inline script or style, so that a
// strict Content-Security-Policy holds.

//go:embed openapi.yaml
var openAPI []byte

//go:embed asyncapi.yaml
var asyncAPI []byte

//go:embed docs
var docsFiles embed.FS

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

// pagePolicy is the Content-Security-Policy of the pages.
var pagePolicy = []string{"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}

// headerCached is for answers that change only with the service's version.
var headerCached = []string{"public, max-age=300"}

// description answers with a description of the API.
func description(text []byte, contentType string) func(*call) error {
	d := &document{types: []string{contentType}, plain: text}
	return func(c *call) error {
		c.Header()["Cache-Control"] = headerCached
		return c.document(d)
	}
}

// redirect answers with a redirect to another path.
func redirect(to string) func(*call) error {
	return func(c *call) error {
		c.Header().Set("Location", to)
		c.WriteHeader(http.StatusFound)
		return nil
	}
}

// html answers with a page.
func (c *call) html(body []byte) error {
	c.Header()["Content-Security-Policy"] = pagePolicy
	c.Header()["Cache-Control"] = headerCached
	return c.send(http.StatusOK, []string{typeHTML}, body)
}

// docs answers GET /docs: the API's description in Swagger UI.
func (s *Server) docs(c *call) error {
	page, err := docsFiles.ReadFile("docs/index.html")
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	return c.html(page)
}

// docsTypes has the media types of the files beside the page. Those of Swagger UI are empty.
var docsTypes = map[string]string{
	"start.html": "text/html; charset=utf-8",
	"init.js":    "text/javascript; charset=utf-8", "risks.js": "text/javascript; charset=utf-8",
	"style.css":      "text/css; charset=utf-8",
	"swagger-ui.css": "", "swagger-ui-bundle.js": "", "favicon-32x32.png": "", "favicon-16x16.png": "",
}

var swaggerAssets = swaggerui.NewHandler("", "", "/docs/")

// docsFile answers GET /docs/{file}.
func (s *Server) docsFile(c *call) error {
	name := c.vars["file"]
	if name == "stream.html" {
		return c.template(name, theStreamPage())
	}
	contentType, known := docsTypes[name]
	if !known {
		return errNotFound
	}
	c.Header()["Content-Security-Policy"] = pagePolicy
	c.Header()["Cache-Control"] = headerCached
	if contentType == "" {
		swaggerAssets.ServeHTTP(c, c.r)
		return nil
	}
	file, err := docsFiles.ReadFile("docs/" + name)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	return c.send(http.StatusOK, []string{contentType}, file)
}

var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{"slug": slug}).ParseFS(docsFiles,
	"docs/problem*.html", "docs/stream.html"))

// slug is the form of a code in a path.
func slug(code string) string { return strings.ReplaceAll(code, "_", "-") }

// problemPage answers GET /problems/{code}, to which the type of an error document refers.
func (s *Server) problemPage(c *call) error {
	name := c.vars["code"]
	p := problemsByCode[strings.ReplaceAll(name, "-", "_")]
	if p == nil || slug(p.Code) != name {
		return notFound("problem", "/problems lists all")
	}
	return c.template("problem.html", p)
}

// problemIndex answers GET /problems.
func (s *Server) problemIndex(c *call) error { return c.template("problems.html", problemKinds) }

func (c *call) template(name string, data any) error {
	var b bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("fill page: %w", err)
	}
	return c.html(b.Bytes())
}
