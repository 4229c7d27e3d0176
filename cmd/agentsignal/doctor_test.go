package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// venueServer serves the APIs of Binance and Coinbase, and a feed at /news.
func venueServer(t *testing.T, works bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	serve := func(pattern, kind string, body func(minute int64) string) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			if !works {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html>please sign in</html>")
				return
			}
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body(time.Now().Add(-time.Minute).Truncate(time.Minute).UnixMilli()))
		})
	}
	serve("/api/v3/time", "application/json", func(int64) string {
		return fmt.Sprintf(`{"serverTime":%d}`, time.Now().UnixMilli())
	})
	serve("/time", "application/json", func(int64) string {
		return fmt.Sprintf(`{"iso":%q}`, time.Now().UTC().Format(time.RFC3339Nano))
	})
	serve("/api/v3/klines", "application/json", func(m int64) string {
		return fmt.Sprintf(`[[%d,"67000.0","67010.0","66990.0","67005.0","1.5",%d,"1",10,"1","1","0"]]`, m, m+59_999)
	})
	serve("/products/BTC-USD/candles", "application/json", func(m int64) string {
		return fmt.Sprintf(`[[%d,66990,67010,67000,67005,1.5]]`, m/1000)
	})
	serve("/news", "application/rss+xml", func(m int64) string {
		return `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>` +
			`<item><guid>1</guid><title>Bitcoin rises</title><pubDate>` +
			time.UnixMilli(m).UTC().Format(time.RFC1123Z) + `</pubDate></item></channel></rss>`
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func doctor(t *testing.T, settings ...string) (string, error) {
	t.Helper()
	text := "data_dir: " + t.TempDir() + "\nmarket:\n  " + strings.Join(settings, "\n  ") + "\n"
	return operator(t, "--config", commandtest.Written(t, text)).Try("", "doctor")
}

func TestDoctorReportsWhichSourcesAnswer(t *testing.T) {
	t.Parallel()
	good, bad := venueServer(t, true), venueServer(t, false)
	out, err := doctor(t, "source: binance,coinbase", "binance_url: "+bad.URL, "coinbase_url: "+good.URL,
		"news_feeds: ["+good.URL+"/news]")
	if err != nil {
		t.Errorf("one source works: %v", err)
	}
	lines := strings.Split(out, "\n")
	for i, want := range []string{"SOURCE", "binance   ", "coinbase  ", "rss 127.0.0.1"} {
		if len(lines) <= i || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d does not begin with %q:\n%s", i, want, out)
		}
	}
	if f := strings.Fields(lines[1]); f[1] != "no" || !strings.Contains(lines[1], "text/html") {
		t.Errorf("binance: %s", lines[1])
	}
	if f := strings.Fields(lines[2]); f[1] != "yes" || !strings.HasSuffix(f[3], "s") {
		t.Errorf("coinbase: %s", lines[2])
	}
	if !strings.Contains(lines[3], " yes ") || !strings.Contains(lines[3], "1 items") {
		t.Errorf("feed: %s", lines[3])
	}
}

func TestDoctorFailsWhereNothingWorks(t *testing.T) {
	t.Parallel()
	good, bad := venueServer(t, true), venueServer(t, false)
	out, err := doctor(t, "source: binance,coinbase", "binance_url: "+bad.URL, "coinbase_url: "+bad.URL,
		"news_feeds: ["+good.URL+"/news]")
	if err == nil || !strings.Contains(err.Error(), "no configured source") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := doctor(t, "source: alpaca"); err == nil || !strings.Contains(err.Error(), "market.alpaca_key") {
		t.Errorf("without keys: %v", err)
	}
	if out, err := doctor(t, "source: simulated"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
