package source

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// newsOf returns the headlines of items, with their times after begin.
func newsOf(items []marketdata.NewsItem, begin time.Time) []string {
	var list []string
	for _, n := range items {
		list = append(list, fmt.Sprintf("%s %s", time.UnixMilli(n.At).Sub(begin), n.Headline))
	}
	return list
}

// TestSkippedNewsAreCounted checks that no item of a feed vanishes without a count, and that each counts once.
func TestSkippedNewsAreCounted(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	item := func(id, title, date string) string {
		return "<item><guid>" + id + "</guid><title>" + title + "</title><pubDate>" + date + "</pubDate></item>"
	}
	items := []string{
		item("1", "Bitcoin rises", "Sun, 22 Nov 2026 06:59:00 EST"),
		item("2", "Bitcoin falls", "some day"), // it may have been there for years
		item("3", "", "Sun, 22 Nov 2026 11:00:00 GMT"),
		item("4", "Bitcoin was new", "Sun, 22 Nov 2015 11:00:00 GMT"),
		item("5", "Cheese is new", "Sun, 22 Nov 2026 11:00:00 GMT"),
		item("6", "Bitcoin will rise", "Sun, 22 Nov 2026 12:10:00 GMT"),
	}
	url := markettest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprint(w, "<rss><channel>"+strings.Join(items, "")+"</channel></rss>")
	})
	now, metrics, log := begin, NewMetrics(prometheus.NewRegistry()), &bytes.Buffer{}
	o := Options{News: []string{url}}
	r := o.Reporters(nil, func() time.Time { return now }, slog.New(slog.NewTextHandler(log, nil)), metrics)[0]
	read := func(when string, want ...string) {
		t.Helper()
		got, err := r.read(t.Context(), 0)
		if d := cmp.Diff(want, newsOf(r.fresh(got, now.UnixMilli()), begin)); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", when, err, d)
		}
		r.seen = now.UnixMilli()
		r.logSkipped(r.seen)
	}
	read("at first", "-1m0s Bitcoin rises")
	now = now.Add(time.Minute)
	r.fresh(nil, now.UnixMilli()) // the feed has not changed
	now = now.Add(time.Minute)
	items = append(items, item("7", "Ethereum rises", "some day"), item("9", "", "Sun, 22 Nov 2026 11:00:00 GMT"))
	read("with others", "2m0s Ethereum rises")
	now = now.Add(8 * time.Minute)
	read("when the future has come", "10m0s Bitcoin will rise")
	now = now.Add(maxSight + time.Second)
	items = append(items, item("8", "Ethereum falls", "some day"))
	read("after a long pause")
	want := map[newsReason]float64{newsDate: 2, newsHeadline: 2, newsOld: 1, newsUnrelated: 1, newsFuture: 1}
	for _, reason := range newsReasons {
		if n := testutil.ToFloat64(metrics.news.WithLabelValues(rss.Name, string(reason))); n != want[reason] {
			t.Errorf("%v items are counted as %s, want %v", n, reason, want[reason])
		}
	}
	if len(r.future) > 0 {
		t.Errorf("it remembers %v, whose time has come", r.future)
	}
	if lines := strings.Count(log.String(), "news skipped"); lines != 3 {
		t.Errorf("%d lines in 40 minutes:\n%s", lines, log)
	}
}

// TestNewsWithoutDatesCountFromTheSecondRead checks the loop of a reporter.
func TestNewsWithoutDatesCountFromTheSecondRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		r := &Reporter{now: time.Now, log: slog.New(slog.DiscardHandler), known: map[string]int64{},
			skipped: map[newsReason]int{}}
		r.read = func(context.Context, int64) (items []marketdata.NewsItem, err error) {
			for i := range reads + 1 {
				items = append(items, marketdata.NewsItem{ID: fmt.Sprint(i), Headline: fmt.Sprint("Bitcoin rises ", i)})
			}
			reads++
			return items, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := make(chan Delivery)
		go r.Run(ctx, out)
		for i := range 2 {
			d := <-out
			if want := fmt.Sprint("Bitcoin rises ", i+1); len(d.News) != 1 || d.News[0].Headline != want ||
				d.News[0].At != time.Now().UnixMilli() {
				t.Errorf("%+v, want %s", d.News, want)
			}
		}
	})
}
