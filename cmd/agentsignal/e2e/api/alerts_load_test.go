package api

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestManyAlerts: 2,000 at one address, faster than its limit of 600. Each one that was accepted has its signal, and one
// alert ends all of them, which are more than one append ends. Then the intake is revoked while alerts arrive.
func TestManyAlerts(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed = "simulated", 1
	c.RateLimit.Intakes = "600/h" // so that a slow machine too sends faster than it
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.H1)
	s.AwaitPrices(t, "BTC", signal.M1)
	ada, _, _ := s.User(t)
	ada.Post("/v1/agents", ownAgent).Want(t, 201)
	in := e2e.AddIntake(t, ada, "my_agent")
	public := s.Client(t)
	send := func(body string) e2e.Answer {
		return public.Do("POST", "/v1/intake/"+in.Token, body, "Content-Type: text/plain")
	}
	total := func() int {
		return e2e.Decode[struct{ Total int }](t, ada.Get("/v1/signals?agent_id=my_agent").Ok(t).Body).Total
	}
	// many sends n alerts and returns how many were answered with each status, and the signals.
	many := func(n int, text string) (statuses map[int]int, made map[string]bool) {
		var mu sync.Mutex
		var next atomic.Int64
		statuses, made = map[int]int{}, map[string]bool{}
		var senders sync.WaitGroup
		for range 16 {
			senders.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					a := send(fmt.Sprintf("buy BTC note=%s%d", text, i))
					id := ""
					if a.Status == http.StatusOK {
						id = e2e.Decode[e2e.IntakeAnswer](t, a.Body).ID
					}
					mu.Lock()
					statuses[a.Status]++
					if id != "" {
						made[id] = true
					}
					mu.Unlock()
				}
			})
		}
		senders.Wait()
		return statuses, made
	}
	statuses, made := many(2_000, "a")
	accepted, queued := statuses[http.StatusOK], statuses[http.StatusAccepted]
	if accepted+queued < 600 || statuses[http.StatusTooManyRequests] == 0 || len(made) != accepted ||
		accepted+queued+statuses[http.StatusTooManyRequests] != 2_000 {
		t.Fatalf("answers by status: %v, %d signals", statuses, len(made))
	}
	e2e.Eventually(t, "each accepted alert has its signal", func() bool { return total() == accepted+queued })

	var flat e2e.Answer
	e2e.Eventually(t, "an alert is within the limit", func() bool {
		flat = send("flat BTC")
		return flat.Status != http.StatusTooManyRequests
	})
	if flat.Status == http.StatusOK {
		if closed := e2e.Decode[e2e.IntakeAnswer](t, flat.Body).Closed; len(closed) == 0 || len(closed) > accepted+queued {
			t.Errorf("%d of %d signals are ended", len(closed), accepted+queued) // prices may have ended others
		}
	} else {
		flat.Want(t, http.StatusAccepted)
	}
	e2e.Eventually(t, "all signals are closed", func() bool {
		return e2e.Decode[struct{ Total int }](t, ada.Get("/v1/signals?agent_id=my_agent&status=open").Ok(t).Body).Total == 0
	})

	in = e2e.AddIntake(t, ada, "my_agent")
	before, revoked := total(), make(chan struct{})
	go func() {
		defer close(revoked)
		e2e.Eventually(t, "alerts arrive", func() bool { return total() > before })
		ada.Do("DELETE", "/v1/agents/my_agent/intakes/"+in.ID, "").Want(t, 204)
	}()
	statuses, _ = many(300, "b")
	<-revoked
	send("buy BTC note=last").Fails(t, "not_found")
	if statuses[http.StatusNotFound] == 0 || statuses[http.StatusOK] == 0 {
		t.Errorf("answers by status: %v", statuses)
	}
	if n := total() - before; n < statuses[http.StatusOK] || n > statuses[http.StatusOK]+statuses[http.StatusAccepted] {
		t.Errorf("%d signals of the answers %v", n, statuses)
	}
}
