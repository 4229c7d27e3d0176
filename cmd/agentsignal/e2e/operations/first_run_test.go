package operations

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A client of a service that reports itself ready may run an agent, on a Redis without any prices,
// too: the run waits for the first ones.
func TestTheFirstRunAfterReadyIsAnswered(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	c.Runs.Timeout = configs.Duration(5 * time.Minute) // the market begins late on a busy machine
	s := e2e.Start(t, c)
	alice, _ := s.Account(t)
	for _, body := range []string{`{"asset":"BTC","strategy":"momentum"}`, `{"asset":"wheat","strategy":"sentiment"}`} {
		if r := alice.Post("/v1/agents/trading/run", body); r.Status != http.StatusOK {
			t.Errorf("run of %s on an empty redis: %d %s", body, r.Status, r.Body)
		}
	}
}
