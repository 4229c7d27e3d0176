package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	webhookTurns = 3
	// webhookHanging of webhookMany endpoints hang. The high percentiles differ more between
	// turns than because of them, so there are more turns.
	webhookMany    = 100
	webhookHanging = 10
	hangingTurns   = 7
	// webhookTimeout is the service's timeout for requests that hang, which is shorter than
	// by default, so that it occurs many times in a window.
	webhookTimeout = 2 * time.Second
)

// webhooksBenchmark is the benchmark webhooks.
type webhooksBenchmark struct {
	*report
}

// measure measures deliveries to the endpoints of clients, from the event in the event log
// to the stored outcome. The service is a process of its own; this process receives the
// deliveries and appends the events. All share the machine with Redis.
func (b *webhooksBenchmark) measure(ctx context.Context) error {
	half := 0.0
	for _, c := range []struct {
		endpoints int
		target    string
	}{{webhookMany, "20,000/s"}, {10, "20,000/s"}, {1, "10,000/s"}} {
		rate, err := b.rates(ctx, c.endpoints, c.target)
		if err != nil {
			return fmt.Errorf("%d endpoints: %w", c.endpoints, err)
		}
		if c.endpoints == webhookMany {
			half = rate / 2
		}
	}
	if err := b.hangingEndpoints(ctx, half); err != nil {
		return fmt.Errorf("endpoints that hang: %w", err)
	}
	return nil
}

// rates measures an account whose events all go to the given number of endpoints. It
// returns deliveries per second.
func (b *webhooksBenchmark) rates(ctx context.Context, endpoints int, target string) (_ float64, err error) {
	w, err := newWebhookRig(ctx, endpoints)
	if err != nil {
		return 0, err
	}
	defer w.end(ctx, &err)
	l, err := w.load(ctx, 0, endpoints)
	if err != nil {
		return 0, err
	}
	s, err := w.serve(ctx, w.env...)
	if err != nil {
		return 0, err
	}
	if _, err := l.saturate(ctx, s, b.window/2); err != nil { // to warm up
		return 0, err
	}
	var rates, costs, redisCosts, bareRates, bareCosts []float64
	duplicates := int64(0)
	// They take turns, so that a machine that slows down favours neither.
	for range webhookTurns {
		report, cost, err := runBare(ctx, w.receiver, b.window/2, 0)
		if err != nil {
			return 0, err
		}
		bareRates, bareCosts = append(bareRates, float64(report.Sent)/report.Took.Seconds()), append(bareCosts, cost)
		t, err := l.saturate(ctx, s, b.window/2)
		if err != nil {
			return 0, err
		}
		rates, costs, redisCosts = append(rates, t.rate), append(costs, t.cost), append(redisCosts, t.redis)
		duplicates += t.duplicates
	}
	rate, bare := median(rates), median(bareRates)
	taken, err := l.pace(ctx, b.window, rate/2)
	if err != nil {
		return 0, err
	}
	paced, _, err := runBare(ctx, w.receiver, b.window, rate/2/float64(endpoints))
	if err != nil {
		return 0, err
	}
	b.row(fmt.Sprintf("endpoints: %d (target %s)", endpoints, target),
		"%.0f deliveries/s, none lost, %d twice", rate, duplicates)
	b.row("  bare loop, as many connections", "%.0f/s", bare)
	b.row("  ratio (target at least 0.4)", "%.2f", rate/bare)
	b.row("  the service's CPU each (target 40 us)", "%.1f us (bare loop %.1f us)", median(costs), median(bareCosts))
	b.row("  Redis's CPU each", "%.1f us", median(redisCosts))
	b.row(fmt.Sprintf("  at %.0f/s (targets p50 3 ms, p99 10 ms)", rate/2), "%s (bare loop p50 %s, p99 %s)",
		latencies(taken), short(paced.P50), short(paced.P99))
	return rate, nil
}

// hangingEndpoints compares an account whose endpoints all answer with one where some of them
// read requests and never answer. rate is deliveries per second to endpoints that answer.
func (b *webhooksBenchmark) hangingEndpoints(ctx context.Context, rate float64) (err error) {
	w, err := newWebhookRig(ctx, 2*webhookMany)
	if err != nil {
		return err
	}
	defer w.end(ctx, &err)
	for i := range webhookHanging {
		w.receiver.sinks[webhookMany+i*(webhookMany/webhookHanging)].hangs = true
	}
	without, err := w.load(ctx, 0, webhookMany)
	if err != nil {
		return err
	}
	with, err := w.load(ctx, webhookMany, webhookMany)
	if err != nil {
		return err
	}
	s, err := w.serve(ctx, append(w.env, "AGENTSIGNAL_WEBHOOKS_TIMEOUT="+webhookTimeout.String())...)
	if err != nil {
		return err
	}
	if _, err := without.saturate(ctx, s, b.window/2); err != nil { // to warm up
		return err
	}
	var p50, p99 [2][]float64 // in ms
	for range hangingTurns {
		for i, l := range []*webhookLoad{without, with} {
			taken, err := l.pace(ctx, b.window/2, rate*float64(l.fanOut)/webhookMany)
			if err != nil {
				return err
			}
			slices.Sort(taken)
			p50[i] = append(p50[i], percentile(taken, 50).Seconds()*1000)
			p99[i] = append(p99[i], percentile(taken, 99).Seconds()*1000)
		}
	}
	none, some := median(p99[0]), median(p99[1])
	others := rate * (webhookMany - webhookHanging) / webhookMany
	b.row(fmt.Sprintf("%d of %d endpoints hang, others at %.0f/s", webhookHanging, webhookMany, others),
		"p50 %.1f ms, p99 %.1f ms", median(p50[1]), some)
	b.row("  none hangs", "p50 %.1f ms, p99 %.1f ms", median(p50[0]), none)
	b.row("  ratio of p99 (target at most 1.3)", "%.2f", some/none)
	return nil
}
