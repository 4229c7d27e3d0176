package content

import (
	"cmp"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
)

// tags holds the tags of a page's head.
type tags struct {
	title       string
	description string
	addresses   []string          // of the page
	named       map[string]string // by name or property, in small letters
	duplicates  int
}

// readTags reads the tags in a piece of HTML, which may be malformed.
func readTags(s string) tags {
	t := tags{named: map[string]string{}}
	seen := map[string]bool{}
	note := func(name string) {
		if seen[name] {
			t.duplicates++
		}
		seen[name] = true
	}
	z := html.NewTokenizer(strings.NewReader(s))
	inTitle := false
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				t.duplicates++ // malformed HTML fails the check
			}
			return t
		case html.TextToken:
			if inTitle {
				t.title = strings.TrimSpace(html.UnescapeString(string(z.Raw())))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			if inTitle = token.Data == "title" && kind == html.StartTagToken; inTitle {
				note("title")
			}
			t.add(token, note)
		case html.EndTagToken:
			inTitle = false
		}
	}
}

// add records a meta or link tag.
func (t *tags) add(token html.Token, note func(name string)) {
	attributes := map[string]string{}
	for _, a := range token.Attr {
		attributes[a.Key] = strings.TrimSpace(a.Val)
	}
	switch token.Data {
	case "meta":
		name := strings.ToLower(cmp.Or(attributes["name"], attributes["property"]))
		if name == "" {
			return
		}
		note("meta " + name)
		t.named[name] = attributes["content"]
		switch name {
		case "description":
			t.description = attributes["content"]
		case "og:url":
			t.addresses = append(t.addresses, attributes["content"])
		}
	case "link":
		if strings.EqualFold(attributes["rel"], "canonical") {
			note("canonical")
			t.addresses = append(t.addresses, attributes["href"])
		}
	}
}
