package http

import (
	"net/http"
	"strings"

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

// VerifierPath returns the path of the script by which a browser checks the signals of a public record.
func VerifierPath() string {
	for name := range consoleFiles {
		if strings.HasPrefix(name, console.Verifier) {
			return consolePath + name
		}
	}
	return "" // a test finds it
}

// ConsoleHandlers answer with the console.
type ConsoleHandlers struct{}

// Routes implements Resource.
func (h ConsoleHandlers) Routes() []*Route {
	routes := []*Route{
		route("/", anyQuery(open(redirect(consolePath)))),
		route("/dashboard", anyQuery(open(redirect(consolePath)))),
	}
	return append(routes, pageRoutes(map[string]func(*call) error{consolePath: h.page, consolePath + "{file}": h.file})...)
}

// redirect answers with a redirect to another path.
func redirect(to string) func(*call) error {
	return func(c *call) error {
		c.Header().Set("Location", to)
		c.WriteHeader(http.StatusFound)
		return nil
	}
}

// page answers GET /dashboard/.
func (ConsoleHandlers) page(c *call) error {
	return answerConsole(c, console.Index)
}

// file answers GET /dashboard/{file}.
func (ConsoleHandlers) file(c *call) error {
	if c.vars["file"] == console.Index {
		return errNotFound // a page has one address
	}
	return answerConsole(c, c.vars["file"])
}

// answerConsole answers with a file of the console.
func answerConsole(c *call, name string) error {
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
