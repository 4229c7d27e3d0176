// Package console holds the browser console as it is built: a single page, whose source is in
// src. It uses only the public API. `make console` builds it; the result is committed, so that
// `go install` needs no other tools.
//
// Names of files contain a hash of their content, except [Index].
package console

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed dist
var dist embed.FS

// Index is the name of the page.
const Index = "index.html"

// Verifier begins the name of the script that checks the signals of a public record.
const Verifier = "public-"

// Policy is the Content-Security-Policy of the page. Trusted types without a policy mean that no
// text can become a script or markup: what the page shows comes from others.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// File is one file of the console.
type File struct {
	Name, ContentType string
	Text              []byte
}

// contentTypes are those of all files that a build makes.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Files returns all files, which callers must not change.
func Files() ([]File, error) {
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("list console: %w", err)
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		text, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read console: %w", err)
		}
		contentType, known := contentTypes[path.Ext(e.Name())]
		if !known {
			return nil, fmt.Errorf("read console: the type of %s is not known", e.Name())
		}
		files = append(files, File{Name: e.Name(), ContentType: contentType, Text: text})
	}
	return files, nil
}
