package receive

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m)) }

// operator returns an operator of agentsignal webhook.
func operator(tb testing.TB) commandtest.Operator {
	return commandtest.NewOperator(tb, commandtest.InProcess(func() *cobra.Command { return Command(nil) }))
}

// answer is an answer of the receiver.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// want ends the test if the answer has another status, and returns it.
func (a answer) want(tb testing.TB, status int) answer {
	tb.Helper()
	if a.Status != status {
		tb.Fatalf("answered with %d, want %d: %s", a.Status, status, a.Body)
	}
	return a
}

// decode reads JSON.
func decode[T any](tb testing.TB, text string) (v T) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("read %q: %v", text, err)
	}
	return v
}
