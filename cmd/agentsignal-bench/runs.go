package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
)

const (
	runAccounts    = 32
	runConnections = 128
)

// runKinds are the bodies of runs: assets of all classes and the three strategies that read
// only bars.
var runKinds = func() []string {
	var bodies []string
	for _, asset := range []string{"BTC", "ETH", "SOL", "AAPL", "NVDA", "EURUSD", "XAUUSD", "oil"} {
		for _, strategy := range []string{"momentum", "mean_reversion", "breakout"} {
			bodies = append(bodies, fmt.Sprintf(`{"asset":%q,"strategy":%q,"timeframe":"1h"}`, asset, strategy))
		}
	}
	return bodies
}()

// runsBenchmark is the benchmark runs.
type runsBenchmark struct {
	*report
}

// measure measures synchronous runs over HTTP, which are answered when their signal is durable.
// Service, Redis and load share the machine.
func (b *runsBenchmark) measure(ctx context.Context) (err error) {
	key := newKey()
	sealer, err := keyring.New([]credential.NamedKey{key})
	if err != nil {
		return err
	}
	// All endpoints of agents are on one host.
	r, s, err := newService(ctx, runAccounts, "AGENTSIGNAL_SECURITY_ENCRYPTION_KEYS="+setting(key),
		"AGENTSIGNAL_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.0/8", "AGENTSIGNAL_WEBHOOKS_ALLOW_HTTP=true",
		"AGENTSIGNAL_WEBHOOKS_HOST_CONCURRENCY=2048")
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	l := r.runLoad(s)
	if err := l.warm(ctx); err != nil {
		return err
	}
	health := &load{addr: s.addr, request: func(int, int) []byte { return httpRequest("GET", "/healthz", "none", "") }}
	reference, _, err := health.run(ctx, runConnections, b.window, 0)
	if err != nil {
		return err
	}
	var rate float64
	var taken []time.Duration
	used, err := during(s.cpu, func() (err error) {
		rate, taken, err = l.run(ctx, runConnections, b.window, 0)
		return err
	})
	if err != nil {
		return err
	}
	b.row("runs, 128 connections (target 8,000/s)", "%.0f/s, %s", rate, latencies(taken))
	b.row("GET /healthz, 128 connections", "%.0f/s, ratio %.2f", reference, rate/reference)
	b.row("the service's CPU a run", "%.1f us", float64(used.Microseconds())/float64(len(taken)))
	if _, taken, err = l.run(ctx, runConnections, b.window, rate/2); err != nil {
		return err
	}
	b.row("at half of that rate (target p99 25 ms)", "%s", latencies(taken))
	if err := b.submissions(ctx, r, s, l); err != nil {
		return err
	}
	return b.asked(ctx, r, s, sealer, l)
}

// pairs is how often two loads are measured in turns.
const pairs = 5

// compared are the figures of a load that is measured in turns with another: by pair, its rate, and its rate and the service's
// CPU each against those of the other.
type compared struct{ rates, ratios, costs []float64 }

// inTurns measures l against reference.
func (b *runsBenchmark) inTurns(ctx context.Context, s *server, reference, l *load) (c compared, err error) {
	for range pairs {
		var cost, rate [2]float64
		for i, l := range []*load{reference, l} {
			var taken []time.Duration
			used, err := during(s.cpu, func() (err error) {
				rate[i], taken, err = l.run(ctx, runConnections, b.window, 0)
				return err
			})
			if err != nil {
				return c, err
			}
			cost[i] = float64(used) / float64(len(taken))
		}
		c.rates, c.ratios = append(c.rates, rate[1]), append(c.ratios, rate[1]/rate[0])
		c.costs = append(c.costs, cost[1]/cost[0])
	}
	return c, nil
}

// submissions measures signals that agents of accounts submit against runs of the same assets, and alerts of chart programs
// against submissions.
func (b *runsBenchmark) submissions(ctx context.Context, r *rig, s *server, runs *load) error {
	if err := r.addAgents(ctx); err != nil {
		return err
	}
	submissions := r.submissionLoad(s)
	if err := submissions.warm(ctx); err != nil {
		return err
	}
	c, err := b.inTurns(ctx, s, runs, submissions)
	if err != nil {
		return err
	}
	b.row("submissions, 128 connections", "%.0f/s", median(c.rates))
	b.row("submissions against runs in turns, 5 pairs (target 1.1)", "ratio %.2f of %.2f to %.2f", median(c.ratios),
		slices.Min(c.ratios), slices.Max(c.ratios))
	b.row("the service's CPU a submission against a run", "ratio %.2f", median(c.costs))
	alerts := r.alertLoad(s)
	if err := alerts.warm(ctx); err != nil {
		return err
	}
	if c, err = b.inTurns(ctx, s, submissions, alerts); err != nil {
		return err
	}
	b.row("alerts of charts against submissions in turns, 5 pairs (target 0.9)", "ratio %.2f of %.2f to %.2f",
		median(c.ratios), slices.Min(c.ratios), slices.Max(c.ratios))
	b.row("the service's CPU an alert against a submission", "ratio %.2f of %.2f to %.2f", median(c.costs),
		slices.Min(c.costs), slices.Max(c.costs))
	return nil
}
