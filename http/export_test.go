package http_test

import (
	"encoding/csv"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// exportOf returns fakes with n signals, and fails at the read of a chunk, if fail is not 0.
func exportOf(n, fail int, change func(i int, s *signal.Signal)) *fakes {
	chunks := 0
	return &fakes{
		locate: func(q catalogue.Query, before signal.Location) ([]signal.Location, int, error) {
			if chunks++; chunks == fail {
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
	address := serveOn(t, newServer(t, exportOf(100_000, 3, nil), func(o *signalhttp.Options) {
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
	address := serveOn(t, newServer(t, f, func(o *signalhttp.Options) { o.WriteTimeout = timeout }))
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
