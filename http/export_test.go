package http_test

import (
	"bytes"
	"encoding/csv"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// exportOf returns fakes with n signals, and fails at the read of a chunk, if fail is not 0.
func exportOf(n, fail int, change func(i int, s *signal.Signal)) *fakes {
	var chunks atomic.Int64
	return &fakes{
		locate: func(q catalogue.Query, before signal.Location) ([]signal.Location, int, error) {
			if chunks.Add(1) == int64(fail) {
				return nil, 0, signal.Unavailable(nil)
			}
			var at []signal.Location
			for i := int(before.Created.MS); i < min(n, int(before.Created.MS)+q.Limit); i++ {
				at = append(at, signal.Location{ID: signalID, Created: signal.Position{MS: int64(i + 1)}})
			}
			return at, n, nil
		},
		at: func(_ signal.AccountID, at []signal.Location) ([]*signal.Signal, error) {
			var list []*signal.Signal
			for _, l := range at {
				s := newSignal()
				if change != nil {
					change(int(l.Created.MS-1), s)
				}
				list = append(list, s)
			}
			return list, nil
		},
	}
}

func TestExportsHaveEverySignal(t *testing.T) {
	t.Parallel()
	s := newServer(t, exportOf(1234, 0, nil))
	one := do(t, s, "GET", "/v1/signals/"+string(signalID), "").Body
	a := do(t, s, "GET", "/v1/signals/export?format=jsonl&asset=btc&status=open", "", "Authorization: Bearer reader")
	if a.Status != 200 || a.Body != strings.Repeat(one+"\n", 1234) || a.Header.Get("RateLimit") == "" ||
		a.Header.Get("Content-Disposition") != `attachment; filename="signals.jsonl"` {
		t.Errorf("%d %v %.300s", a.Status, a.Header, a.Body)
	}
	a = do(t, newServer(t, exportOf(1000, 0, nil)), "GET", "/v1/signals/export", "")
	rows, err := csv.NewReader(strings.NewReader(a.Body)).ReadAll()
	if err != nil || len(rows) != 1001 || rows[0][0] != "signal_id" || rows[1000][0] != string(signalID) ||
		rows[1][6] != "64250.125" || rows[1][13] != "" || !strings.HasPrefix(rows[1][24], `{"indicators"`) {
		t.Errorf("%v: %d rows, %.300s", err, len(rows), a.Body)
	}
	a = do(t, newServer(t, exportOf(0, 0, nil)), "GET", "/v1/signals/export", "")
	if strings.Count(a.Body, "\n") != 1 {
		t.Errorf("without signals: %q", a.Body)
	}
	for query, want := range map[string]int{"format=xlsx": 400, "limit=5": 400, "min_confidence=2": 400} {
		if a := do(t, s, "GET", "/v1/signals/export?"+query, ""); a.Status != want {
			t.Errorf("%s: %d", query, a.Status)
		}
	}
}

func TestExportsHaveNoFormulas(t *testing.T) {
	t.Parallel()
	assets := []string{"=1+1", "+1", "-1", "@x", "\tx", "＝1", "a=1", `"q",`, "BTC"}
	f := exportOf(len(assets), 0, func(i int, s *signal.Signal) { s.Asset = assets[i] })
	a := do(t, newServer(t, f), "GET", "/v1/signals/export?format=csv", "")
	rows, err := csv.NewReader(strings.NewReader(a.Body)).ReadAll()
	if err != nil || len(rows) != len(assets)+1 {
		t.Fatalf("%v: %s", err, a.Body)
	}
	for i, asset := range assets {
		want := asset
		if i < 6 {
			want = "'" + asset
		}
		if got := rows[i+1][2]; got != want {
			t.Errorf("%q is %q, want %q", asset, got, want)
		}
	}
}

// TestAnExportThatFailsIsCut in the middle; before its first byte it is a problem.
func TestAnExportThatFailsIsCut(t *testing.T) {
	t.Parallel()
	if a := do(t, newServer(t, exportOf(9, 1, nil)), "GET", "/v1/signals/export", ""); a.Status != 503 ||
		a.Header.Get("Content-Disposition") != "" {
		t.Errorf("before the first byte: %d %s", a.Status, a.Body)
	}
	address := serveOn(t, newServer(t, exportOf(100_000, 3, nil), func(o *config) {
		o.WriteTimeout = time.Minute
	}))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/v1/signals/export?format=jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if text, err := io.ReadAll(w.Body); err == nil || w.StatusCode != 200 {
		t.Errorf("%d and %d bytes end without an error", w.StatusCode, len(text))
	}
}

// TestALongExportOutlivesTheWriteTimeout, as long as its client reads.
func TestALongExportOutlivesTheWriteTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	f := exportOf(2500, 0, nil)
	locate := f.locate
	f.locate = func(q catalogue.Query, before signal.Location) ([]signal.Location, int, error) {
		time.Sleep(timeout / 3) // the store is slow
		return locate(q, before)
	}
	address := serveOn(t, newServer(t, f, func(o *config) { o.WriteTimeout = timeout }))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/v1/signals/export?format=jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if n := strings.Count(string(text), "\n"); n != 2500 || err != nil {
		t.Errorf("%d signals, %v", n, err)
	}
}

// openExport begins an export and reads nothing of its answer but the header.
func openExport(t *testing.T, address, credential string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/v1/signals/export?format=jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+credential)
	r.Header.Set("Accept-Encoding", "identity")
	w, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Body.Close() })
	return w
}

// TestAnExportWhoseReaderStallsEnds, and lets the next one begin.
func TestAnExportWhoseReaderStallsEnds(t *testing.T) {
	t.Parallel()
	address := serveOn(t, newServer(t, exportOf(math.MaxInt, 0, nil), func(o *config) {
		o.WriteTimeout, o.ExportStall, o.MaxAccountExports = time.Hour, 100*time.Millisecond, 1
	}))
	if w := openExport(t, address, "key"); w.StatusCode != 200 {
		t.Fatalf("the first: %d", w.StatusCode)
	}
	const waitLimit = time.Minute
	for until := time.Now().Add(waitLimit); ; time.Sleep(10 * time.Millisecond) {
		w := openExport(t, address, "key")
		if w.StatusCode == 200 {
			return
		}
		if w.Body.Close(); time.Now().After(until) {
			t.Fatalf("after %v the next one is still refused with %d", waitLimit, w.StatusCode)
		}
	}
}

func TestExportsAtOnceAreLimited(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config){
		"of an account":  func(o *config) { o.MaxAccountExports = 2 },
		"of the service": func(o *config) { o.MaxExports, o.MaxAccountExports = 2, 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serveOn(t, newServer(t, exportOf(math.MaxInt, 0, nil), change))
			first := openExport(t, address, "key")
			if second := openExport(t, address, "key"); first.StatusCode != 200 || second.StatusCode != 200 {
				t.Fatalf("allowed: %d and %d", first.StatusCode, second.StatusCode)
			}
			third := openExport(t, address, "key")
			body, err := io.ReadAll(third.Body)
			if err != nil || third.StatusCode != 429 || third.Header.Get("Retry-After") != "10" ||
				!strings.Contains(string(body), `"code":"too_many_exports"`) {
				t.Errorf("one more: %d %v %s, %v", third.StatusCode, third.Header, body, err)
			}
			first.Body.Close()
			const waitLimit = time.Minute
			for until := time.Now().Add(waitLimit); openExport(t, address, "key").StatusCode != 200; {
				time.Sleep(10 * time.Millisecond)
				if time.Now().After(until) {
					t.Fatal("one that has ended still counts")
				}
			}
		})
	}
}

// TestReadersLeaveExportsToOthers: one reader has the limit of an account, and all of an account have half of the exports.
func TestReadersLeaveExportsToOthers(t *testing.T) {
	t.Parallel()
	address := serveOn(t, newServer(t, exportOf(math.MaxInt, 0, nil), func(o *config) {
		o.MaxExports, o.MaxAccountExports = 6, 2
	}))
	for i, x := range []struct {
		credential string
		status     int
		text       string
	}{
		{"key_a view{}", 200, ""}, {"key_a view{}", 200, ""}, {"key_a view{}", 429, "the reader has as many"},
		{"key_b view{}", 200, ""}, {"key_c view{}", 429, "the readers of the account have as many"},
		{"key", 200, ""}, {"key", 200, ""}, {"key", 429, "the account has as many"},
	} {
		w := openExport(t, address, x.credential)
		if w.StatusCode != x.status {
			t.Fatalf("%d, %s: %d, want %d", i, x.credential, w.StatusCode, x.status)
		}
		if x.text == "" {
			continue
		}
		if body, err := io.ReadAll(w.Body); err != nil || !strings.Contains(string(body), x.text) {
			t.Errorf("%d, %s: %s, %v", i, x.credential, body, err)
		}
	}
}

// rowCounter is a client which counts rows when it gets them.
type rowCounter struct {
	http.ResponseWriter
	got    int
	onRows func(got, bytes int)
}

func (w *rowCounter) Write(b []byte) (int, error) {
	w.onRows(w.got+bytes.Count(b, []byte("\n")), len(b))
	w.got += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

// TestAnExportReadsOneChunkAhead: what is in memory does not grow with the export.
func TestAnExportReadsOneChunkAhead(t *testing.T) {
	t.Parallel()
	const signals, chunk, row, piece = 20_000, 500, 2 << 10, 64 << 10
	read, pieces := 0, 0
	f := exportOf(signals, 0, nil)
	at := f.at
	f.at = func(account signal.AccountID, l []signal.Location) ([]*signal.Signal, error) {
		read += len(l)
		return at(account, l)
	}
	w := &rowCounter{ResponseWriter: httptest.NewRecorder(), onRows: func(got, bytes int) {
		if pieces++; read-got >= chunk || bytes > piece+row {
			t.Errorf("%d signals were read when the client had got %d, the last of them in %d bytes", read, got, bytes)
		}
	}}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/signals/export?format=jsonl", nil)
	r.Header.Set("Authorization", "Bearer key")
	newServer(t, f).Handler().ServeHTTP(w, r)
	if w.got != signals || pieces < signals/chunk {
		t.Errorf("%d signals in %d pieces", w.got, pieces)
	}
}

// TestAnExportGivesItsSlotBack, however it ends.
func TestAnExportGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	const path = "/v1/signals/export?format=jsonl"
	for name, limit := range map[string]func(*config){
		"of the account": func(o *config) { o.MaxAccountExports = 1 },
		"of the service": func(o *config) { o.MaxExports, o.MaxAccountExports = 1, 100 },
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
	address := serveOn(t, newServer(t, exportOf(math.MaxInt, 0, nil), func(o *config) {
		o.MaxExports, o.MaxAccountExports = 1, 2
	}))
	openExport(t, address, "key")
	for range 3 {
		refused := openExport(t, address, "key")
		body, err := io.ReadAll(refused.Body)
		if err != nil || refused.StatusCode != 429 || !strings.Contains(string(body), "the service has as many") {
			t.Fatalf("without room: %d %s, %v", refused.StatusCode, body, err)
		}
	}
}
