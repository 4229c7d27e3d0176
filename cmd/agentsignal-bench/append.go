package main

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal-bench/barelog"
)

const (
	appendCallers = 256
	appendBatch   = 512 // entries of one pipeline of the reference
)

// appendMetadata is the metadata of written signals, appendPayload the data of their events.
const (
	appendMetadata = `{"indicators":["ema_12_26","adx_14","atr_14"],` +
		`"reasoning":"EMA12 is 0.8 ATR above EMA26; ADX 27 confirms a trend."}`
	appendPayload = `{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","asset":"BTC",` +
		`"strategy":"momentum","direction":"long","confidence":0.4372,"entry_price":64250.125,` +
		`"stop_loss":62900.125,"take_profit":66275.125,"metadata":` + appendMetadata + `}`
)

// appendBenchmark is the benchmark append.
type appendBenchmark struct {
	*report
}

// measure measures durable appends of one event by many concurrent callers. The reference is
// a pipeline of XADD for the same callers.
func (b *appendBenchmark) measure(ctx context.Context) (err error) {
	r, err := newRig(ctx, 0)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	accounts := make([]signal.AccountID, appendCallers)
	for i := range accounts {
		accounts[i] = signal.NewAccountID()
	}
	log := func(ctx context.Context, caller int) error {
		return r.signals.appendCreated(ctx, accounts[caller], "BTC", []byte(appendPayload))
	}
	bare, err := barelog.New(r.url, appendBatch, []byte(appendPayload))
	if err != nil {
		return err
	}
	defer bare.Close()
	pipeline := func(_ context.Context, caller int) error { return bare.Append(caller % r.store.Client.Partitions()) }
	// They take turns, so that a machine that slows down favours neither.
	var ours, reference []float64
	for range 3 {
		rate, err := b.callers(ctx, pipeline)
		if err != nil {
			return err
		}
		reference = append(reference, rate)
		if rate, err = b.callers(ctx, log); err != nil {
			return err
		}
		ours = append(ours, rate)
	}
	got, want := median(ours), median(reference)
	b.row("events appended, 256 callers", "%.0f/s", got)
	b.row("bare pipeline of XADD, 256 callers", "%.0f/s", want)
	b.row("ratio (target at least 0.5)", "%.2f", got/want)
	return nil
}

// callers calls f from many goroutines for a window and returns the calls per second.
func (b *appendBenchmark) callers(ctx context.Context, f func(ctx context.Context, caller int) error) (float64, error) {
	var calls atomic.Int64
	var group errgroup.Group
	start := time.Now()
	for i := range appendCallers {
		group.Go(func() error {
			for time.Since(start) < b.window {
				if err := f(ctx, i); err != nil {
					return err
				}
				calls.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(calls.Load()) / time.Since(start).Seconds(), err
}
