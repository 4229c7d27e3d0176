// Package rss reads news from RSS and Atom feeds. It requests only feeds that changed.
package rss

import (
	"bytes"
	"cmp"
	"context"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mmcdole/gofeed"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
)

// Name is the name of the source.
const Name = "rss"

// types are the content types of feeds.
var types = []string{
	"application/rss+xml", "application/atom+xml", "application/xml", "text/xml", "application/rdf+xml",
	"application/feed+json", "application/json",
}

const (
	maxItems    = 500
	maxHeadline = 500  // bytes
	maxText     = 4000 // bytes
)

// Item is one item of a feed.
type Item struct {
	ID       string    // unique in the feed
	At       time.Time // zero if it has no readable date
	Headline string    // may be empty
	Text     string
}

// Feed is one feed. Its methods may be called from one goroutine at a time.
type Feed struct {
	URL                string
	c                  *fetch.Client
	etag, lastModified string
}

// New returns the feed at a URL.
func New(url string, c *fetch.Client) *Feed { return &Feed{URL: url, c: c} }

// Read returns the first maxItems items of the feed and how many there are beyond, or nil if it did not change since
// the last call. The error is a *fetch.Error or that of ctx.
func (f *Feed) Read(ctx context.Context) (items []Item, excess int, err error) {
	a, err := f.c.Get(ctx, fetch.Request{URL: f.URL, Types: types, ETag: f.etag, LastModified: f.lastModified})
	if err != nil || a.Unchanged {
		return nil, 0, err
	}
	if items, excess, err = parse(a.Body); err != nil {
		return nil, 0, f.c.Undecodable(err)
	}
	f.etag, f.lastModified = a.ETag, a.LastModified
	return items, excess, nil
}

func parse(body []byte) (items []Item, excess int, err error) {
	feed, err := gofeed.NewParser().Parse(bytes.NewReader(validText(body)))
	if err != nil {
		return nil, 0, err
	}
	for _, x := range feed.Items {
		if x == nil {
			continue
		}
		if len(items) == maxItems {
			excess++
			continue
		}
		// Not by gofeed, which takes zones that it does not know for UTC, and 3/4/2025 for one of April.
		at, ok := dateOf(x.Published)
		if !ok {
			at, _ = dateOf(x.Updated)
		}
		items = append(items, Item{ID: cmp.Or(x.GUID, x.Link, x.Title), At: at,
			Headline: plain(x.Title, maxHeadline), Text: plain(cmp.Or(x.Description, x.Content), maxText)})
	}
	return items, excess, nil
}

// declared matches the beginning of a document that names its encoding.
var declared = regexp.MustCompile(`(?i)^[^<]{0,8}<\?xml[^>]*\sencoding\s*=\s*["']([^"']+)`)

// windows1252 is what programs that write UTF-8 by mistake most often mean.
var windows1252, _ = charset.Lookup("windows-1252")

// validText returns a document that is UTF-8, or does not declare its encoding, with the bytes that are not UTF-8
// replaced by what they are in windows-1252: the parser would refuse all of it for one of them.
func validText(body []byte) []byte {
	m := declared.FindSubmatch(body[:min(len(body), 200)])
	utf16 := bytes.HasPrefix(body, []byte{0xfe, 0xff}) || bytes.HasPrefix(body, []byte{0xff, 0xfe})
	if utf8.Valid(body) || utf16 || m != nil && !strings.EqualFold(string(m[1]), "utf-8") {
		return body
	}
	valid, decoder := make([]byte, 0, len(body)+len(body)/8), windows1252.NewDecoder()
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		if r == utf8.RuneError && n == 1 {
			text, _ := decoder.Bytes(body[:1]) // has a character for each byte
			valid = append(valid, text...)
		} else {
			valid = append(valid, body[:n]...)
		}
		body = body[n:]
	}
	return valid
}

// Plain returns a text without markup in one line.
func Plain(text string) string { return plain(text, maxText) }

// tagName matches the beginning of what may be a tag.
var tagName = regexp.MustCompile(`^</?([A-Za-z][^\s/>]*)`)

// isMarkup reports whether what stands between < and >, or after the last <, is a tag of HTML or of another namespace,
// or a comment. Else it is text.
func isMarkup(raw []byte) bool {
	m := tagName.FindSubmatch(raw)
	return m == nil || atom.Lookup(bytes.ToLower(m[1])) != 0 || bytes.ContainsAny(m[1], ":-")
}

// plain returns at most n bytes of a text without markup in one line.
func plain(text string, n int) string {
	if len(text) > 8*n {
		text = text[:8*n]
	}
	var b strings.Builder
	hidden := false // in a script or a style sheet
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := z.Next()
		raw := z.Raw()
		switch {
		case kind != html.TextToken && isMarkup(raw):
			b.WriteByte(' ')
			hidden = kind == html.StartTagToken && hiding.Match(raw)
		case !hidden:
			b.WriteString(html.UnescapeString(string(raw)))
		}
		if kind == html.ErrorToken {
			return oneLine(b.String(), n)
		}
	}
}

// hiding matches the tags of what a page does not show.
var hiding = regexp.MustCompile(`(?i)^<(script|style)\b`)

// oneLine returns at most n bytes of a text in one line.
func oneLine(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "")
}
