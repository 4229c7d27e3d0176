// Package rss reads news from RSS and Atom feeds. It requests only feeds that changed.
package rss

import (
	"bytes"
	"cmp"
	"context"
	"html"
	"regexp"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"

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
	ID       string // unique in the feed
	At       time.Time
	Headline string
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

// Read returns the items of the feed with a headline and a time, or nil if it did not change since
// the last call. The error is a *fetch.Error or that of ctx.
func (f *Feed) Read(ctx context.Context) ([]Item, error) {
	a, err := f.c.Get(ctx, fetch.Request{URL: f.URL, Types: types, ETag: f.etag, LastModified: f.lastModified})
	if err != nil || a.Unchanged {
		return nil, err
	}
	items, err := parse(a.Body)
	if err != nil {
		return nil, f.c.Undecodable(err)
	}
	f.etag, f.lastModified = a.ETag, a.LastModified
	return items, nil
}

func parse(body []byte) ([]Item, error) {
	feed, err := gofeed.NewParser().Parse(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	items := make([]Item, 0, len(feed.Items))
	for _, x := range feed.Items[:min(len(feed.Items), maxItems)] {
		if x == nil {
			continue
		}
		at := x.PublishedParsed
		if at == nil {
			at = x.UpdatedParsed
		}
		headline, text := plain(x.Title, maxHeadline), plain(cmp.Or(x.Description, x.Content), maxText)
		if at == nil || headline == "" {
			continue
		}
		items = append(items, Item{ID: cmp.Or(x.GUID, x.Link, x.Title), At: *at, Headline: headline, Text: text})
	}
	return items, nil
}

var tags = regexp.MustCompile(`<[^>]*>`)

// Plain returns a text without markup in one line.
func Plain(text string) string { return plain(text, maxText) }

// plain returns at most n bytes of a text without markup in one line.
func plain(text string, n int) string {
	if len(text) > 8*n {
		text = text[:8*n]
	}
	text = strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(text, " "))), " ")
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "")
}
