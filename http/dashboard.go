package http

import (
	"github.com/agentsignal/agentsignal/http/console"
)

// consolePath is where the console is; its files are beside it.
const consolePath = "/dashboard/"

var (
	consolePolicy = []string{console.Policy}
	// headerNoCache makes a browser ask for the page each time: it names the files that belong
	// together, and they have other names after an update.
	headerNoCache   = []string{"no-cache"}
	headerImmutable = []string{"public, max-age=31536000, immutable"}
)

// consoleFiles are the files of the console by name.
var consoleFiles = func() map[string]*document {
	files, err := console.Files()
	if err != nil {
		panic(err)
	}
	all := make(map[string]*document, len(files))
	for _, f := range files {
		all[f.Name] = &document{types: []string{f.ContentType}, plain: f.Text}
	}
	return all
}()

// consolePage answers GET /dashboard/.
func (s *Server) consolePage(c *call) error {
	return c.console(console.Index)
}

// consoleFile answers GET /dashboard/{file}.
func (s *Server) consoleFile(c *call) error {
	if c.vars["file"] == console.Index {
		return errNotFound // a page has one address
	}
	return c.console(c.vars["file"])
}

func (c *call) console(name string) error {
	d := consoleFiles[name]
	if d == nil {
		return errNotFound
	}
	h := c.Header()
	h["Content-Security-Policy"], h["Cache-Control"] = consolePolicy, headerImmutable
	if name == console.Index {
		h["Cache-Control"] = headerNoCache
	}
	return c.document(d)
}
