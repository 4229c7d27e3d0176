package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/bench/barelog"
)

const (
	appendCallers = 256
	appendBatch   = 512 // entries of one pipeline of the reference
)

// appendMetadata is the metadata of the signals that are written, appendPayload the
// data of their events.
const (
	appendMetadata = `{"indicators":["ema_12_26","adx_14","atr_14"],` +
		`"reasoning":"EMA12 is 0.8 ATR above EMA26; ADX 27 confirms a trend."}`
	appendPayload = `{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","asset":"BTC",` +
		`"strategy":"momentum","direction":"long","confidence":0.4372,"entry_price":64250.125,` +
		`"stop_loss":62900.125,"take_profit":66275.125,"metadata":` + appendMetadata + `}`
)

// appends measures durable appends: one event of the log, by many callers at once,
// against a pipeline that groups the same callers and does nothing but XADD.
func (b *bench) appends(ctx context.Context) (err error) {
	r, err := newRig(ctx)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	accounts := make([]signal.AccountID, appendCallers)
	for i := range accounts {
		accounts[i] = signal.NewAccountID()
	}
	log := func(ctx context.Context, caller int) error {
		_, err := r.log.Append(ctx, signal.Change{Account: accounts[caller], Events: []signal.Event{{
			Type:  signal.SignalCreated,
			Asset: "BTC",
			Data:  []byte(appendPayload),
			Listing: &signal.Listing{
				ID:         signal.NewSignalID(),
				Agent:      "trading",
				Asset:      "BTC",
				Strategy:   "momentum",
				Direction:  signal.Long,
				Confidence: .4372,
			},
		}}})
		return err
	}
	bare, err := barelog.New(r.url, appendBatch, []byte(appendPayload))
	if err != nil {
		return err
	}
	defer bare.Close()
	pipeline := func(_ context.Context, caller int) error { return bare.Append(caller % r.store.Partitions()) }
	// In turn, so that a machine that slows down does not favour either.
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

// callers has many goroutines call f for a window and returns calls a second.
func (b *bench) callers(ctx context.Context, f func(ctx context.Context, caller int) error) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	for i := range appendCallers {
		wg.Go(func() {
			for time.Since(start) < b.window {
				if err := f(ctx, i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return 0, *e
	}
	return float64(calls.Load()) / time.Since(start).Seconds(), nil
}
