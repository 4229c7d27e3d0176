package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	watchedAssets   = 100
	watchedAccounts = 64
	watchedMany     = 1_000_000
	watchedSome     = 100_000
	watchedWriters  = 256
	ticksPerSecond  = 10_000
	watchPatience   = 3 * time.Minute
)

// signalLives measures open signals: what a million costs while prices move, how fast
// a hundred thousand close, and how soon they are watched after a start.
func (b *bench) signalLives(ctx context.Context) error {
	if err := b.watchedSignals(ctx); err != nil {
		return err
	}
	return b.closedSignals(ctx)
}

// watchedSignals measures a million open signals that no price touches.
func (b *bench) watchedSignals(ctx context.Context) (err error) {
	r, err := newRig(ctx)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	ids, _, err := r.accounts(ctx, watchedAccounts)
	if err != nil {
		return err
	}
	prices := market.New(r.store.Client)
	s, err := r.start(ctx, "AGENTSIGNAL_MARKET_SOURCE=stream")
	if err != nil {
		return err
	}
	idle, err := b.underTicks(ctx, prices, s)
	if err == nil {
		b.row("no signals, 10,000 ticks/s on 100 assets", "%.2f of a processor", idle)
	}
	if err := errors.Join(err, s.stop(ctx)); err != nil {
		return fmt.Errorf("without signals: %w", err)
	}
	start := time.Now()
	if err := r.openSignals(ctx, ids, watchedMany); err != nil {
		return err
	}
	b.row("a million signals opened", "in %s", short(time.Since(start)))
	start = time.Now()
	if s, err = r.serve(ctx, "AGENTSIGNAL_MARKET_SOURCE=stream"); err != nil {
		return err
	}
	empty, emptyLive, err := s.memory(ctx)
	if err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_open", watchedMany); err != nil {
		return err
	}
	b.row("all of them have an actor", "%s after the start", short(time.Since(start)))
	busy, err := b.underTicks(ctx, prices, s)
	if err != nil {
		return err
	}
	b.row("with them (target at most 1)", "%.2f of a processor", busy)
	full, fullLive, err := s.memory(ctx)
	if err != nil {
		return err
	}
	b.row("memory of an open signal (target 1.5 KB)", "%d bytes alive, %d resident", (fullLive-emptyLive)/watchedMany,
		(full-empty)/watchedMany)
	start = time.Now()
	if err := s.stop(ctx); err != nil {
		return fmt.Errorf("with open signals: %w", err)
	}
	b.row("end with a million open signals", "%s after SIGTERM", short(time.Since(start)))
	return nil
}

// closedSignals measures a hundred thousand signals that close within a second, and as
// many whose end came while no service was there.
func (b *bench) closedSignals(ctx context.Context) (err error) {
	r, err := newRig(ctx)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	ids, _, err := r.accounts(ctx, watchedAccounts)
	if err != nil {
		return err
	}
	prices := market.New(r.store.Client)
	s, err := r.start(ctx, "AGENTSIGNAL_MARKET_SOURCE=stream")
	if err != nil {
		return err
	}
	if err := appendTicks(ctx, prices, 100, watchedAssets); err != nil {
		return err
	}
	if err := r.openSignals(ctx, ids, watchedSome); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_open", watchedSome); err != nil {
		return err
	}
	start := time.Now()
	if err := appendTicks(ctx, prices, 200, watchedAssets); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_closed_total", watchedSome); err != nil {
		return err
	}
	b.row("100,000 close at once (target 10 s)", "durable after %s", short(time.Since(start)))
	if err := s.stop(ctx); err != nil {
		return err
	}
	if err := r.openSignals(ctx, ids, watchedSome); err != nil {
		return err
	}
	// Half of the assets pass the levels while no service runs.
	if err := appendTicks(ctx, prices, 200, watchedAssets/2); err != nil {
		return err
	}
	start = time.Now()
	if s, err = r.serve(ctx, "AGENTSIGNAL_MARKET_SOURCE=stream"); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_closed_total", watchedSome/2); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_open", watchedSome/2); err != nil {
		return err
	}
	b.row("start with 100,000, half of them over (target 10 s)", "all watched and closed after %s",
		short(time.Since(start)))
	return nil
}

// openSignals opens n signals of accounts, on watchedAssets assets around a price of 100.
func (r *rig) openSignals(ctx context.Context, accounts []signal.AccountID, n int) error {
	var wg sync.WaitGroup
	failures := make(chan error, watchedWriters)
	for w := range watchedWriters {
		wg.Go(func() {
			for i := w; i < n; i += watchedWriters {
				reach := 5 + float64(i%1000)/100
				sig := &signal.Signal{ID: signal.NewSignalID(), Account: accounts[i%len(accounts)], Agent: "trading",
					Run:   signal.NewRunID(),
					Asset: watchedAsset(i % watchedAssets), Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk,
					Direction:  signal.Long,
					Confidence: .45, Metadata: []byte(appendMetadata),
					Levels:    &signal.Levels{Entry: 100, Stop: 100 - reach/1.5, Target: 100 + reach},
					ExpiresAt: r.store.Now().Add(24 * time.Hour)}
				listing := sig.Listing()
				if _, err := r.log.Append(ctx, signal.Change{Account: sig.Account, Signal: sig,
					Events: []signal.Event{{Type: signal.SignalCreated,
						Asset: sig.Asset, Listing: &listing, Data: []byte(appendPayload)}}}); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func watchedAsset(i int) string { return fmt.Sprintf("W%03d", i) }

// appendTicks writes a tick of each of the first n assets.
func appendTicks(ctx context.Context, prices *market.Store, price float64, n int) error {
	time.Sleep(2 * time.Millisecond) // of what was opened just now, a price of the same moment does not count
	now := time.Now().UnixMilli()
	ticks := make([]marketdata.AssetTick, n)
	for i := range ticks {
		ticks[i] = marketdata.AssetTick{Asset: watchedAsset(i), Tick: marketdata.Tick{Price: price, Volume: 1, Time: now}}
	}
	return prices.GiveTicks(ctx, ticks)
}

// underTicks returns how much of a processor the service uses while prices move that
// touch nothing.
func (b *bench) underTicks(ctx context.Context, prices *market.Store, s *server) (float64, error) {
	for range 2 { // the assets come to be
		if err := appendTicks(ctx, prices, 100, watchedAssets); err != nil {
			return 0, err
		}
		time.Sleep(time.Second)
	}
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	const every = time.Second * watchedAssets / ticksPerSecond
	for n := 0; time.Since(start) < b.window; n++ {
		if err := appendTicks(ctx, prices, 100+.5*float64(n%7-3)/3, watchedAssets); err != nil {
			return 0, err
		}
		time.Sleep(time.Until(start.Add(time.Duration(n+1) * every)))
	}
	took := time.Since(start)
	after, err := s.cpu()
	return float64(after-before) / float64(took), err
}

// await waits until the sum of a metric over its labels has a value.
func (s *server) await(ctx context.Context, metric string, want float64) error {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	for {
		got, err := s.metric(ctx, metric)
		if err == nil && got == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of %v: it is %v, %w", metric, want, got, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// memory returns how many bytes of the server are resident, and how many of its heap were
// alive at its last collection: the next one begins when those have grown by GOGC.
func (s *server) memory(ctx context.Context) (resident, alive int64, err error) {
	next, err := s.metric(ctx, "go_memstats_next_gc_bytes")
	if err != nil {
		return 0, 0, err
	}
	grows, err := s.metric(ctx, "go_gc_gogc_percent")
	if err != nil {
		return 0, 0, err
	}
	resident, err = s.resident()
	return resident, int64(next * 100 / (100 + grows)), err
}

// metric returns the sum of a metric over its labels.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer w.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, lines.Err()
}
