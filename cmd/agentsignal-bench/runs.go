package main

import (
	"context"
	"fmt"
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
	return nil
}
