package main

import (
	"context"
	"fmt"
	"slices"
	"time"
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
	r, s, err := newService(ctx, runAccounts)
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
	return b.submissions(ctx, r, s, l)
}

// submissionPairs is how often runs and submissions are measured in turns.
const submissionPairs = 5

// submissions measures signals that agents of accounts submit against runs of the same assets.
func (b *runsBenchmark) submissions(ctx context.Context, r *rig, s *server, runs *load) error {
	if err := r.addAgents(ctx); err != nil {
		return err
	}
	submissions := r.submissionLoad(s)
	if err := submissions.warm(ctx); err != nil {
		return err
	}
	var rates, ratios, costs []float64
	for range submissionPairs {
		var cost [2]float64 // of processor time
		var rate [2]float64
		for i, l := range []*load{runs, submissions} {
			var taken []time.Duration
			used, err := during(s.cpu, func() (err error) {
				rate[i], taken, err = l.run(ctx, runConnections, b.window, 0)
				return err
			})
			if err != nil {
				return err
			}
			cost[i] = float64(used) / float64(len(taken))
		}
		rates, ratios = append(rates, rate[1]), append(ratios, rate[1]/rate[0])
		costs = append(costs, cost[1]/cost[0])
	}
	b.row("submissions, 128 connections", "%.0f/s", median(rates))
	b.row("submissions against runs in turns, 5 pairs (target 1.1)", "ratio %.2f of %.2f to %.2f", median(ratios),
		slices.Min(ratios), slices.Max(ratios))
	b.row("the service's CPU a submission against a run", "ratio %.2f", median(costs))
	return nil
}
