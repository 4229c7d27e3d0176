package terminal

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// The list of failed deliveries has why no message was made, for which it asks.
func TestFailedDeliveriesHaveTheirReasons(t *testing.T) {
	t.Parallel()
	const made = `{"delivery_id":%q,"webhook_id":"whk_1","event_type":"signal.closed","status":"failed","error":%q}`
	of := func(id, err string) string { return fmt.Sprintf(made, id, err) }
	asked := 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/deliveries":
			list := []string{of("dlv_1", notMade), of("dlv_2", "timeout"), of("dlv_3", notMade)}
			for i := range 2 * maxReasons {
				list = append(list, of(fmt.Sprintf("dlv_more%d", i), notMade))
			}
			fmt.Fprintf(w, `{"deliveries":[%s],"has_more":false}`, strings.Join(list, ","))
		case "/v1/webhooks/whk_1/deliveries/dlv_1":
			asked++
			fmt.Fprint(w, of("dlv_1", notMade+": line 1: the event has no .data.x"))
		default: // the others are gone
			asked++
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(service.Close)
	run := commandtest.InProcess(func() *cobra.Command { return webhookFailed(nil) })
	out, _, err := run(t.Context(), strings.NewReader("key"), "--url", service.URL, "--key-file", "-", "-o", "csv", "-n", "0")
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) < 4 || !strings.HasSuffix(lines[1], "message not made: line 1: the event has no .data.x") ||
		!strings.HasSuffix(lines[2], ",timeout") || !strings.HasSuffix(lines[3], ",message not made") || asked != maxReasons {
		t.Errorf("%d asked for: %s, %v", asked, out, err)
	}
}
