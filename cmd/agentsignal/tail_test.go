package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/client"
)

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
		tail := &tailer{service: client.New(address, "ask_key"), assets: []string{asset}, err: out}
		err := tail.checkAssets(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", asset, err, want)
		}
		if warned := out.Line("no prices of") != ""; warned != (asset == "standing desk") {
			t.Errorf("%s: warned is %v", asset, warned)
		}
	}
}
