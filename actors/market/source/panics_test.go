package source

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestNewsAreReadAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := markettest.NewClock()
		reads := 0
		r := &Reporter{Name: "feed", now: c.Now, log: slog.New(slog.DiscardHandler), known: map[string]int64{},
			read: func(context.Context, int64) ([]marketdata.NewsItem, error) {
				if reads++; reads == 1 {
					panic("foreign XML")
				}
				return []marketdata.NewsItem{{ID: "1", At: c.Now().UnixMilli(), Headline: "Bitcoin rises"}}, nil
			}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := make(chan Delivery)
		go r.Run(ctx, out)
		select {
		case d := <-out:
			if len(d.News) != 1 || reads != 2 {
				t.Errorf("%d news after %d reads", len(d.News), reads)
			}
		case <-time.After(time.Hour):
			t.Error("it is not read again")
		}
	})
}

func TestSourceThatPanicsDoesNotWork(t *testing.T) {
	t.Parallel()
	feed := markettest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		io.WriteString(w, `<rss version="2.0"><channel><item><title>Bitcoin rises</title>
			<pubDate>Sun, 22 Nov 2026 12:00:00 GMT</pubDate></item></channel></rss>`)
	})
	now := func() time.Time { panic("at an answer") }
	found, err := CheckHealth(t.Context(), "simulated", Options{News: []string{feed}}, now)
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if c := found[1]; c.Works || !strings.Contains(c.Note, "at an answer") {
		t.Errorf("a feed whose answer panicked: %+v", c)
	}
}
