package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// A page of another origin imports the package for TypeScript, receives a signal, is cut off and resumes.
func TestTypeScriptInAPage(t *testing.T) {
	t.Parallel()
	built := http.FileServer(http.Dir(filepath.Join(e2e.TypeScriptPackage(t), "dist")))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			built.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>A page of somebody else</title>")
	}))
	t.Cleanup(site.Close)
	config := e2e.TestConfig(t, "")
	config.Market.Source, config.HTTP.CORSOrigins = "simulated", []string{site.URL}
	s := e2e.Start(t, config)
	s.AwaitPrices(t, "BTC", signal.H1)
	trader, _ := s.Account(t)
	line := newCutter(t, s.URL)
	page := newBrowser(t, site.URL, 1280)
	evaluate[any](t, page, consoleScript+fmt.Sprintf(`
		const [url, credential, got] = [%q, %q, []];
		const follow = async (stream, kept) => { for await (const message of stream) kept.push(message) };
		const has_signal = (id) => got.filter((m) => m.type === "signal.new" && m.data.signal_id === id).length === 1;
	`, line.url, trader.Token))
	act(t, page, `window.module = await import("/index.js")`,
		`const client = new module.Client({ url, credential })`,
		`void follow(new module.Stream(client, { channels: ["signal.new"], filters: { assets: ["BTC"] } }), got)`,
		`await until("it is subscribed", () => got.some((m) => m.type === "subscribed"))`)
	first := trader.Run("BTC", "momentum")
	act(t, page, fmt.Sprintf(`await until("the signal comes", () => has_signal(%q))`, first.ID))
	line.set(true)
	act(t, page, `await until("it is cut off", () => got.some((m) => m.type === "client.interrupted"))`)
	second := trader.Run("BTC", "momentum")
	line.set(false)
	act(t, page, fmt.Sprintf(`await until("what was missed comes", () => has_signal(%q))`, second.ID),
		fmt.Sprintf(`if (!has_signal(%q)) throw new Error("the first signal comes again")`, first.ID),
		`if (got.some((m) => m.type === "subscribed" && m.gap)) throw new Error("a gap is reported")`)
	for key, status := range map[string]int{"ask_wrong": http.StatusUnauthorized, trader.Token: http.StatusBadRequest} {
		ended := evaluate[int](t, page, fmt.Sprintf(`follow(new module.Stream(new module.Client({ url, credential: %q }),
			{ filters: { assets: ["BTCC"] } }), []).catch((error) => error.status)`, key))
		if ended != status {
			t.Errorf("a stream that is refused ends with %d, want %d", ended, status)
		}
	}
}
