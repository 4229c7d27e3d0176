package markettest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Serve returns the URL of a server that answers with f, by default with JSON. It ends with the test.
func Serve(tb testing.TB, f http.HandlerFunc) (url string) {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		f(w, r)
	}))
	tb.Cleanup(s.Close)
	return s.URL
}

// Unreadable is an answer without bars.
type Unreadable struct {
	Status int
	Body   string
	Kind   fetch.Kind // of the error; empty for fetch.ErrUnknown
}

// NewClient returns the method Bars of a client whose server answers with f.
type NewClient = func(t *testing.T, f http.HandlerFunc) ReadBars

// ReadBars is the method Bars of a client.
type ReadBars = func(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error)

// CheckUnreadable checks the errors of clients for answers of their server.
func CheckUnreadable(t *testing.T, answers map[string]Unreadable, newClient NewClient) {
	t.Helper()
	for name, a := range answers {
		read := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(a.Status)
			fmt.Fprint(w, a.Body)
		})
		bars, err := read(t.Context(), "X", signal.M1, 0, 60_000)
		fault, ok := errors.AsType[*fetch.Error](err)
		if !ok && (a.Kind != "" || !errors.Is(err, fetch.ErrUnknown)) || ok && fault.Kind != a.Kind || bars != nil {
			t.Errorf("%s: %v, %v", name, bars, err)
		}
	}
}

// Request is a request for bars with the one answer that it gets.
type Request struct {
	Answer   string
	Symbol   string
	Frame    signal.Timeframe
	From, To int64
	URI      string // of the first request that is expected
	Bars     []marketdata.Bar
}

// CheckBars checks the request and the bars of a client whose server gives an answer.
func (q Request) CheckBars(t *testing.T, newClient NewClient) {
	t.Helper()
	uri := ""
	read := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		uri = r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprint(w, q.Answer)
	})
	bars, err := read(t.Context(), q.Symbol, q.Frame, q.From, q.To)
	if d := cmp.Diff(q.Bars, bars); d != "" || err != nil || uri != q.URI {
		t.Errorf("%s: %v\n%s", uri, err, d)
	}
}

// CheckPages checks that a client reads n bars of 1m in three pages. page returns the answer of its
// server with the bars of a request.
func CheckPages(t *testing.T, n int, page func(r *http.Request) string, newClient NewClient) {
	t.Helper()
	pages := 0
	read := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		pages++
		fmt.Fprint(w, page(r))
	})
	bars, err := read(t.Context(), "X", signal.M1, minute, int64(n+1)*minute)
	if err != nil || len(bars) != n || pages != 3 {
		t.Fatalf("%d bars in %d pages, %v", len(bars), pages, err)
	}
	for i, b := range bars {
		if b.OpenTime != int64(i+1)*minute {
			t.Fatalf("bar %d opens at %d", i, b.OpenTime)
		}
	}
}
