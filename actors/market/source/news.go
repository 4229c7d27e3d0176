package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/alpaca"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// NewsKept is how long news of real sources are kept, in milliseconds. The calibration of sentiment
// needs 100 past scores, and an asset that trades 7 hours a day has 100 bars of 1h in 3 weeks. On
// 1d there are never as many.
const NewsKept = 30 * 86_400_000

const (
	// reportEvery is the pause between two reads of a source of news, reportRetry the longest one
	// while it fails.
	reportEvery = time.Minute
	reportRetry = 15 * time.Minute
	// maxKnownItems is the number of IDs of delivered items from which old ones are removed.
	maxKnownItems = 20_000
	// alpacaWeight is the weight of its news, which come from an agency.
	alpacaWeight = 1.0
	// maxAlpacaNews bounds one read of its news. It is enough for a day.
	maxAlpacaNews = 1000
	// feedWeight is the default weight of a feed.
	feedWeight = 0.7
	// maxSight is how long after the read before an item without a date counts as of now if it is new.
	maxSight = 2 * reportRetry
	// newsLogEvery is the minimum interval of logs of skipped items of a source.
	newsLogEvery = 10 * time.Minute
)

// Reporter reads one source of news. Its methods belong to one goroutine.
type Reporter struct {
	Name    string
	kind    string // rss or alpaca
	weight  float64
	read    func(ctx context.Context, since int64) ([]marketdata.NewsItem, error)
	now     func() time.Time
	log     *slog.Logger
	metrics *Metrics
	known   map[string]int64   // times of delivered items by ID
	future  map[string]int64   // the read that last had an item whose time has not come, by ID
	last    int64              // time of the newest item
	seen    int64              // when the last read ended; 0 before the first
	skipped map[newsReason]int // since it was last logged
	logged  int64
}

// parseNewsFeed parses a setting, URL or URL=WEIGHT. Errors do not show the URL, which may contain a key.
func parseNewsFeed(text string) (address string, weight float64, err error) {
	address, weight = text, feedWeight
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		if w, err := strconv.ParseFloat(text[i+1:], 64); err == nil {
			if !(w > 0 && w <= 1) {
				return "", 0, fmt.Errorf("the weight %v must be more than 0 and at most 1", w)
			}
			address, weight = text[:i], w
		}
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", 0, errors.New("must be URLs of feeds such as https://example.com/feed.xml, or URL=WEIGHT")
	}
	return address, weight, nil
}

// Reporters returns the configured sources of news.
func (o *Options) Reporters(sources []string, now func() time.Time, log *slog.Logger, m *Metrics) []*Reporter {
	var all []*Reporter
	add := func(name, kind string, weight float64) *Reporter {
		r := &Reporter{Name: name, kind: kind, weight: weight, now: now, log: log, metrics: m,
			known: make(map[string]int64), future: make(map[string]int64), skipped: make(map[newsReason]int)}
		all = append(all, r)
		return r
	}
	if len(o.News) > 0 {
		client := o.feeds(m)
		for _, text := range o.News {
			address, weight, err := parseNewsFeed(text)
			if err != nil {
				continue // Check refuses it
			}
			feed := rss.New(address, client)
			u, _ := url.Parse(address)
			r := add(u.Host, rss.Name, weight)
			r.read = func(ctx context.Context, _ int64) ([]marketdata.NewsItem, error) {
				items, excess, err := feed.Read(ctx)
				r.skip(newsExcess, excess)
				news := make([]marketdata.NewsItem, 0, len(items))
				for _, i := range items {
					n := marketdata.NewsItem{At: unixMilli(i.At), Headline: i.Headline, Body: i.Text}
					n.ID = shortID(address + "\n" + i.ID)
					news = append(news, n)
				}
				return news, err
			}
		}
	}
	if slices.Contains(sources, alpaca.Name) {
		client := o.alpaca(m)
		r := add(alpaca.Name, alpaca.Name, alpacaWeight)
		r.read = func(ctx context.Context, since int64) ([]marketdata.NewsItem, error) {
			items, malformed, err := client.News(ctx, "", since, maxAlpacaNews)
			r.skip(newsMalformed, malformed)
			news := make([]marketdata.NewsItem, 0, len(items))
			for _, i := range items {
				news = append(news, marketdata.NewsItem{ID: "alpaca-" + i.ID.String(), At: unixMilli(i.CreatedAt),
					Headline: rss.Plain(i.Headline), Body: rss.Plain(i.Summary), Symbols: i.Symbols})
			}
			return news, err
		}
	}
	return all
}

// unixMilli returns a time in milliseconds, and 0 for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func shortID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Run reads until ctx ends.
func (r *Reporter) Run(ctx context.Context, out chan<- Delivery) {
	pauses := backoff.Backoff{Min: reportEvery, Max: reportRetry}
	for pause := time.Duration(0); backoff.Sleep(ctx, pause); {
		now := r.now().UnixMilli()
		var items []marketdata.NewsItem
		err := panics.ErrPanicked
		since := max(r.last-prices.FrameMS[prices.H1], now-NewsKept)
		panics.Guard(r.log, panics.Source, func() { items, err = r.read(ctx, since) }, "source", r.Name)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("news cannot be read", "source", r.Name, "err", err)
		} else {
			pauses.Reset()
		}
		pause = pauses.Next() + rand.N(reportEvery/10)
		news := r.fresh(items, now)
		if err == nil {
			r.seen = now
		}
		r.logSkipped(now)
		if len(news) > 0 {
			select {
			case out <- Delivery{News: news}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// skip counts items that are not used.
func (r *Reporter) skip(reason newsReason, n int) {
	r.metrics.skipNews(r.kind, reason, n)
	r.skipped[reason] += n
}

// logSkipped logs from time to time what was skipped, unless it was so as it should be.
func (r *Reporter) logSkipped(now int64) {
	if r.logged != 0 && now-r.logged < newsLogEvery.Milliseconds() {
		return
	}
	var counts []any
	for _, reason := range newsReasons {
		if n := r.skipped[reason]; n > 0 && reason != newsOld && reason != newsUnrelated {
			counts = append(counts, string(reason), n)
		}
	}
	if clear(r.skipped); len(counts) > 0 {
		r.logged = now
		r.log.Warn("news skipped", append([]any{"source", r.Name}, counts...)...)
	}
}

// fresh returns the new items about known assets, by time. One without a date has appeared since the read before,
// unless that was long ago, as it is for the first read.
func (r *Reporter) fresh(items []marketdata.NewsItem, now int64) []marketdata.NewsItem {
	var news []marketdata.NewsItem
	for _, n := range items {
		if _, known := r.known[n.ID]; known {
			continue
		}
		reason := newsReason("")
		undated := n.At == 0
		if undated {
			n.At = now
		}
		switch {
		case n.Headline == "":
			reason = newsHeadline
		case undated && (r.seen == 0 || now-r.seen > maxSight.Milliseconds()):
			reason = newsDate
		case n.At > now+futureMS: // it would be the newest one until then
			if _, counted := r.future[n.ID]; !counted {
				r.skip(newsFuture, 1)
			}
			r.future[n.ID] = now
			continue
		case n.At < now-NewsKept:
			reason = newsOld
		default:
			n.Source, n.Weight = r.Name, r.weight
			r.last = max(r.last, n.At)
			if n.Symbols = subjects(&n); len(n.Symbols) > 0 {
				news = append(news, n)
			} else {
				reason = newsUnrelated
			}
		}
		r.known[n.ID] = n.At
		if reason != "" {
			r.skip(reason, 1)
		}
	}
	if len(items) > 0 { // a feed that has not changed is read without items
		maps.DeleteFunc(r.future, func(_ string, read int64) bool { return read < now })
	}
	if len(r.known) > maxKnownItems {
		maps.DeleteFunc(r.known, func(_ string, at int64) bool { return at < now-NewsKept })
	}
	slices.SortStableFunc(news, func(a, b marketdata.NewsItem) int { return cmp.Compare(a.At, b.At) })
	return news
}

// subjects returns the symbols of the assets of an item: those that its source tags, by our names,
// and those that its text mentions.
func subjects(n *marketdata.NewsItem) []string {
	var symbols []string
	for _, s := range n.Symbols {
		if s = assets.Symbol(s); validName(s) && !slices.Contains(symbols, s) {
			symbols = append(symbols, s)
		}
	}
	for i := range assets.Known {
		k := &assets.Known[i]
		if slices.Contains(symbols, k.Symbol) {
			continue
		}
		names := append([]string{k.Symbol}, assets.SpokenNames(k.Symbol)...)
		mentions := func(text string) bool { return strategy.Relevance(strategy.NewsItem{Headline: text}, names) > 0 }
		if mentions(n.Headline) || mentions(n.Body) {
			symbols = append(symbols, k.Symbol)
		}
	}
	return symbols
}
