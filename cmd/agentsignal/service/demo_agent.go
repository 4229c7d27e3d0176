package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// demoAgent belongs to the demo account. The service asks it at an endpoint on this machine, as it would ask an agent of
// yours; deploy/clients has it to copy.
var demoAgent = signal.Agent{
	ID:          "moving_averages",
	Name:        "Moving averages",
	Category:    signal.Trading,
	Description: "An agent of the demo account: is the average of 10 closes above that of 30? It has no edge either.",
	Strategies:  []string{"trend"},
	Status:      signal.AgentBeta,
}

// The averages of demoAgent, in bars.
const (
	demoFast = 10
	demoSlow = 30
)

// maxDemoQuestion is the maximum size of a question to demoAgent, in bytes.
const maxDemoQuestion = 1 << 20

// errNoDemoAgent refuses to change an endpoint that the user has chosen.
var errNoDemoAgent = error(signal.NotFound("demo agent"))

// demoPath is the path of the endpoint of demoAgent. One of the user's own has another.
const demoPath = "/moving_averages"

// startAgent answers for demoAgent in the background, at a port that is free. It registers the agent if create is set, and
// otherwise changes the port of its endpoint, unless the user has removed the agent or given it another endpoint.
func (d *demo) startAgent(ctx context.Context, account signal.AccountID, create bool) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint := &signal.Endpoint{URL: "http://" + ln.Addr().String() + demoPath, Secret: delivery.NewSecret()}
	_, err = d.agents.Change(ctx, account, demoAgent.ID, func(a *signal.Agent) error {
		if a.Endpoint == nil || !strings.HasSuffix(a.Endpoint.URL, demoPath) {
			return errNoDemoAgent
		}
		a.Endpoint = endpoint
		return nil
	})
	if create && signal.KindOf(err) == signal.KindNotFound && !errors.Is(err, errNoDemoAgent) {
		a := demoAgent
		a.Account, a.CreatedAt, a.Endpoint = account, d.prices.now().UTC().Truncate(time.Millisecond), endpoint
		_, err = d.agents.Add(ctx, a)
	}
	if err != nil {
		ln.Close()
		if kind := signal.KindOf(err); kind == signal.KindNotFound || kind == signal.KindConflict { // it was removed
			return nil
		}
		return err
	}
	s := &http.Server{Handler: answerDemo(endpoint.Secret, d.prices.now), ReadTimeout: 10 * time.Second}
	d.background.start(ctx, map[string]func(context.Context) error{
		"answer as demo agent": func(context.Context) error {
			if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		"stop demo agent": func(ctx context.Context) error {
			<-ctx.Done()
			return s.Close()
		},
	})
	return nil
}

// answerDemo answers the questions to demoAgent.
func answerDemo(secret string, now func() time.Time) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDemoQuestion))
		if err == nil {
			err = signature.Verify(secret, r.Header, body, now())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		var q struct{ Bars []struct{ Close float64 } }
		if json.Unmarshal(body, &q) != nil || len(q.Bars) < demoSlow {
			_, _ = io.WriteString(w, `{"signal": null, "reason": "the asset has too few bars for an average of 30"}`)
			return
		}
		average := func(n int) (sum float64) {
			for _, bar := range q.Bars[len(q.Bars)-n:] {
				sum += bar.Close
			}
			return sum / float64(n)
		}
		direction := signal.Short
		if average(demoFast) > average(demoSlow) {
			direction = signal.Long
		}
		fmt.Fprintf(w, `{"direction": %q, "stop": {"atr": 2}, "target": {"r": 1.5}, "indicators": ["sma_10", "sma_30"]}`,
			direction)
	}
}
