package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// TestTailResumesAfterWhatFollowedTheReply sends messages of the default channels before
// the reply to a resume, which is followed by older ones.
func TestTailResumesAfterWhatFollowedTheReply(t *testing.T) {
	tail := &tailer{out: io.Discard, last: "2-0"}
	for _, step := range []struct{ text, last string }{
		{`{"type":"welcome","data":{}}`, "2-0"},
		{`{"type":"agent.status","id":"5-0","data":{}}`, "2-0"},
		{`{"type":"subscribed","data":{"resumed":{"replayed":2,"complete":true}}}`, "2-0"},
		{`{"type":"agent.status","id":"3-0","data":{}}`, "3-0"},
		{`{"type":"agent.status","id":"4-0","data":{}}`, "4-0"},
	} {
		commandtest.Must(t, tail.show([]byte(step.text)))
		if tail.last != step.last {
			t.Errorf("after %s it resumes after %s, want %s", step.text, tail.last, step.last)
		}
	}
}

// An asset that looks misspelt is refused; other names are allowed.
func TestTailRefusesMisspeltAssets(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/assets" && r.Header.Get("Authorization") == "Bearer ask_key" {
			w.Write([]byte(`{"assets":[{"asset":"BTC"},{"asset":"ETH"},{"asset":"natural_gas"}]}`))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(service.Close)
	address, err := url.Parse(service.URL)
	commandtest.Must(t, err)
	for asset, want := range map[string]string{"btcc": "did you mean BTC?", "natural_gass": "did you mean natural_gas?",
		"btc": "", "natural-gas": "", "btcusdt": "", "xbt": "", "Eth/USD": "", "standing desk": ""} {
		out := &commandtest.Journal{}
		tail := &tailer{address: address, key: "ask_key", assets: []string{asset}, err: out}
		err := tail.checkAssets(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", asset, err, want)
		}
		if warned := out.Line("no prices of") != ""; warned != (asset == "standing desk") {
			t.Errorf("%s: warned is %v", asset, warned)
		}
	}
}
