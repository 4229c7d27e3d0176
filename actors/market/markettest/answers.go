package markettest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Serve returns the address of a server that answers with JSON, by f. It ends with the test.
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
	Kind   fetch.Kind // of the error; empty: it is fetch.ErrUnknown
}

// Client asks a source for bars.
type Client interface {
	Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error)
}

// CheckUnreadable demands that clients whose server is f take answers for what they are.
func CheckUnreadable(t *testing.T, answers map[string]Unreadable, client func(f http.HandlerFunc) Client) {
	t.Helper()
	for name, a := range answers {
		bars, err := client(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(a.Status)
			fmt.Fprint(w, a.Body)
		}).Bars(t.Context(), "X", signal.M1, 0, 60_000)
		fault, ok := errors.AsType[*fetch.Error](err)
		if a.Kind == "" && !errors.Is(err, fetch.ErrUnknown) || a.Kind != "" && (!ok || fault.Kind != a.Kind) || bars != nil {
			t.Errorf("%s: %v, %v", name, bars, err)
		}
	}
}
