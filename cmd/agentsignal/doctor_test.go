package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/doctor"
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

// diagnose runs doctor with settings of the market, and returns what it prints as JSON.
func diagnose(t *testing.T, settings ...string) (doctor.Report, error) {
	t.Helper()
	text := "data_dir: " + t.TempDir() + "\nhttp: {addr: '127.0.0.1:0'}\nmarket:\n  " + strings.Join(settings, "\n  ") + "\n"
	out, err := operator(t, "--config", commandtest.Written(t, text)).Try("", "doctor", "-o", "json")
	var r doctor.Report
	if out != "" {
		commandtest.Must(t, json.Unmarshal([]byte(out), &r))
	}
	return r, err
}

// wantSource fails the test unless the report has a check of the source with this state and a text with
// part.
func wantSource(t *testing.T, r doctor.Report, name string, state doctor.State, part string) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Area == "sources" && strings.HasPrefix(c.Name, name) {
			if c.State != state || !strings.Contains(c.Fact, part) {
				t.Errorf("got %+v, want %s with %q", c, state, part)
			}
			return
		}
	}
	t.Errorf("no source %q in %+v", name, r.Checks)
}

func TestDoctorReportsWhichSourcesAnswer(t *testing.T) {
	t.Parallel()
	good, bad := venueServer(t, true), venueServer(t, false)
	r, err := diagnose(t, "source: binance,coinbase", "binance_url: "+bad.URL, "coinbase_url: "+good.URL,
		"news_feeds: ["+good.URL+"/news]")
	if err != nil {
		t.Errorf("one source works: %v", err)
	}
	wantSource(t, r, "binance", doctor.Warning, "text/html")
	wantSource(t, r, "coinbase", doctor.OK, "s old")
	wantSource(t, r, "rss 127.0.0.1", doctor.OK, "1 items")
}

// The exit code distinguishes faults from checks that could not be made.
func TestDoctorFailsWhereNothingWorks(t *testing.T) {
	t.Parallel()
	good, bad := venueServer(t, true), venueServer(t, false)
	r, err := diagnose(t, "source: binance,coinbase", "binance_url: "+bad.URL, "coinbase_url: "+bad.URL,
		"news_feeds: ["+good.URL+"/news]")
	cmd := newRoot(nil)
	found, _, _ := cmd.Find([]string{"doctor"})
	if code := command.ExitCode(found, err); code != command.ExitFailed || r.Faults != 2 ||
		!strings.Contains(err.Error(), "2 faults: sources binance, sources coinbase") {
		t.Errorf("exit code %d, %v, %+v", code, err, r)
	}
	_, err = diagnose(t, "source: alpaca")
	if code := command.ExitCode(found, err); code != command.ExitUnable || !strings.Contains(err.Error(), "market.alpaca_key") {
		t.Errorf("without keys: exit code %d, %v", code, err)
	}
	if r, err := diagnose(t, "source: simulated"); err != nil || r.Faults != 0 || r.Warnings != 1 { // no data yet
		t.Errorf("%v\n%+v", err, r)
	}
}
