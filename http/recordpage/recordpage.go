// Package recordpage makes the files of a public record: the page, its JSON, the badge, the feed and, for each signal that is
// shown, what checks it in a shell. It keeps them for a minute.
//
// Every text of an account is escaped where it is written: templates have such texts between tags and in quoted attributes
// alone.
package recordpage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/template"
)

//go:embed templates
var templates embed.FS

// Files are those of a public record. They do not change.
type Files struct {
	Page, JSON, Badge, Feed *File

	record *publicrecord.Record
	bytes  int // about how many all of it takes
}

// File is one of them.
type File struct {
	Type    string
	Text    []byte
	Gzipped []byte
	Tag     string // the entity tag
}

// newFile returns the file with a text.
func newFile(mediaType string, text []byte) (*File, error) {
	sum := sha256.Sum256(text)
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	return &File{mediaType, text, b.Bytes(), `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}, err
}

// Proof returns what the steps on the page check a signal with, or nil for a signal that is not shown.
func (f *Files) Proof(id signal.SignalID) []byte {
	for _, list := range [][]publicrecord.Signal{f.record.Closed, f.record.Open} {
		for i := range list {
			if list[i].ID == id {
				return proofOf(f.record, &list[i])
			}
		}
	}
	return nil
}

// Renderer makes files.
type Renderer struct {
	Keys   []string // the public keys that sign checkpoints, the present one first
	Script string   // path of the script that verifies in the browser; empty without one
}

// Render returns the files of a record that is shown as p.
func (r *Renderer) Render(of *publicrecord.Record, p credential.Publication) (*Files, error) {
	f, view := &Files{record: of}, viewPage(of, p, r)
	for _, each := range []struct {
		file      **File
		mediaType string
		make      func() ([]byte, error)
	}{
		{&f.Page, "text/html; charset=utf-8", func() ([]byte, error) { return fill("page.html", view) }},
		{&f.JSON, "application/json", func() ([]byte, error) { return encode(of, p, r.Keys, view.NotProved) }},
		{&f.Badge, "image/svg+xml", func() ([]byte, error) { return fill("badge.svg", view) }},
		{&f.Feed, "application/atom+xml", func() ([]byte, error) { return fill("feed.xml", view) }},
	} {
		text, err := each.make()
		if err != nil {
			return nil, err
		}
		if *each.file, err = newFile(each.mediaType, text); err != nil {
			return nil, fmt.Errorf("compress a file of a public record: %w", err)
		}
		f.bytes += len(text) + len((*each.file).Gzipped)
	}
	f.bytes += len(f.JSON.Text) // for the record itself
	return f, nil
}

// Missing returns the page for an address without a record. gone: there was one.
func Missing(gone bool) []byte {
	text, err := fill("missing.html", map[string]bool{"Gone": gone})
	if err != nil {
		panic(err) // a test makes both
	}
	return text
}

// fill returns the text of a template with data.
func fill(name string, data any) ([]byte, error) {
	values, err := template.Values(data)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	text, err := parsed[name].Execute(values)
	if err != nil {
		return nil, fmt.Errorf("fill %s: %w", name, err)
	}
	return text, nil
}

// parsed are the templates by name.
var parsed = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	files, err := templates.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		text, err := templates.ReadFile("templates/" + f.Name())
		if err != nil {
			panic(err)
		}
		all[f.Name()] = template.Must(template.Parse(string(text), template.Options{Data: "the record", Escape: escape}))
	}
	return all
}()

// escape makes a text safe in HTML and XML, in which some characters may not be at all.
func escape(s string) string { return html.EscapeString(strings.Map(allowed, s)) }

// allowed returns r, or -1 if XML has no such character.
func allowed(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
		return -1
	}
	return r
}

// Policy is the Content-Security-Policy of the pages. Their styles are in them, so that they need no other file.
var Policy = "default-src 'none'; script-src 'self'; style-src " + styleHash("page.html") + " " + styleHash("missing.html") +
	"; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// styleHash returns the source expression of the style in a template.
func styleHash(name string) string {
	text, err := templates.ReadFile("templates/" + name)
	if err != nil {
		panic(err)
	}
	_, style, _ := bytes.Cut(text, []byte("<style>"))
	style, _, _ = bytes.Cut(style, []byte("</style>"))
	sum := sha256.Sum256(style)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
