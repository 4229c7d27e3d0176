package http_test

import (
	"io"
	"math"
	"strings"
	"testing"

	signalhttp "github.com/agentsignal/agentsignal/http"
)

// TestAnExportGivesItsSlotBack, however it ends.
func TestAnExportGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	const path = "/v1/signals/export?format=jsonl"
	for name, limit := range map[string]func(*signalhttp.Options){
		"of the account": func(o *signalhttp.Options) { o.MaxAccountExports = 1 },
		"of the service": func(o *signalhttp.Options) { o.MaxExports, o.MaxAccountExports = 1, 100 },
	} {
		failing, whole := newServer(t, exportOf(9, 1, nil), limit), newServer(t, exportOf(9, 0, nil), limit)
		if a := do(t, failing, "GET", path, ""); a.Status != 503 {
			t.Errorf("%s: one that fails: %d", name, a.Status)
		}
		if a := do(t, failing, "GET", path, ""); a.Status != 200 {
			t.Errorf("%s: after one that failed: %d", name, a.Status)
		}
		for _, method := range []string{"GET", "HEAD", "GET", "HEAD", "GET"} {
			if a := do(t, whole, method, path, ""); a.Status != 200 {
				t.Errorf("%s: %s after one that was complete: %d", name, method, a.Status)
			}
		}
	}
}

// TestAnExportThatIsRefusedHasNoSlot: the service has no room for it, so it does not count for its account either.
func TestAnExportThatIsRefusedHasNoSlot(t *testing.T) {
	t.Parallel()
	address := serveOn(t, newServer(t, exportOf(math.MaxInt, 0, nil), func(o *signalhttp.Options) {
		o.MaxExports, o.MaxAccountExports = 1, 2
	}))
	openExport(t, address)
	for range 3 {
		refused := openExport(t, address)
		body, err := io.ReadAll(refused.Body)
		if err != nil || refused.StatusCode != 429 || !strings.Contains(string(body), "the service has as many") {
			t.Fatalf("without room: %d %s, %v", refused.StatusCode, body, err)
		}
	}
}
