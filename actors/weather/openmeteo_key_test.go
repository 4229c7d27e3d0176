package weather

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestAnEscapedKeyIsNotShown: a service may quote the request that it refuses, with the key as it is in an address.
func TestAnEscapedKeyIsNotShown(t *testing.T) {
	t.Parallel()
	m := newFixture(t, OpenMeteoOptions{APIKey: "se+cret/k&y"}, func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, http.StatusBadRequest, fmt.Sprintf(`{"error":true,"reason":%q}`, "refused: "+r.URL.RawQuery))
	})
	_, _, err := m.Forecast(t.Context(), points2(), Date(20000).Time())
	e, ok := errors.AsType[*signal.RunError](err)
	if !ok || !strings.Contains(e.Cause.Error(), "apikey=***") || strings.Contains(e.Cause.Error()+e.Message, "cret") {
		t.Errorf("the cause is %v, want one without the key", err)
	}
}
