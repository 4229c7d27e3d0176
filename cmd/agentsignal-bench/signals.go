package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// signalWriter appends signals to the log, as the runs of a service do.
type signalWriter struct {
	log *eventlog.Log
	now func() time.Time
}

// newSignal returns an open signal of an account.
func (w *signalWriter) newSignal(account signal.AccountID, asset string) *signal.Signal {
	return &signal.Signal{
		ID:         signal.NewSignalID(),
		Account:    account,
		Agent:      "trading",
		Run:        signal.NewRunID(),
		Asset:      asset,
		Strategy:   "momentum",
		Timeframe:  signal.H1,
		Risk:       signal.MediumRisk,
		Direction:  signal.Long,
		Confidence: .45,
		Metadata:   []byte(appendMetadata),
		Levels:     &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125},
		ExpiresAt:  w.now().Add(24 * time.Hour),
	}
}

// open stores a signal and appends its event.
func (w *signalWriter) open(ctx context.Context, s *signal.Signal) (signal.Position, error) {
	listing := s.Listing()
	event := signal.Event{Type: signal.SignalCreated, Asset: s.Asset, Listing: &listing, Data: []byte(appendPayload)}
	return w.log.Append(ctx, signal.Change{Account: s.Account, Signal: s, Events: []signal.Event{event}})
}

// appendCreated appends the event of a new signal without storing the signal.
func (w *signalWriter) appendCreated(ctx context.Context, account signal.AccountID, asset string, data []byte) error {
	listing := signal.Listing{
		ID:         signal.NewSignalID(),
		Agent:      "trading",
		Asset:      asset,
		Strategy:   "momentum",
		Direction:  signal.Long,
		Confidence: .4372,
	}
	event := signal.Event{Type: signal.SignalCreated, Asset: asset, Listing: &listing, Data: data}
	_, err := w.log.Append(ctx, signal.Change{Account: account, Events: []signal.Event{event}})
	return err
}

// close closes a signal that was opened at a position.
func (w *signalWriter) close(ctx context.Context, s *signal.Signal, opened signal.Position) (signal.Position, error) {
	closed := *s
	loss := s.Levels.Stop - s.Levels.Entry
	closed.Closing = &signal.Closing{Reason: signal.StopLoss, At: opened.Time(), ExitPrice: &s.Levels.Stop,
		PnLAbsolute: &loss}
	closed.Sequence, closed.Metadata = 2, nil
	return w.log.Append(ctx, signal.Change{Account: s.Account, Signal: &closed,
		Events: []signal.Event{{Type: signal.SignalClosed, Asset: s.Asset, Data: []byte(`{}`)}}})
}

// fill writes n signals of an account and returns the position of the last.
func (w *signalWriter) fill(ctx context.Context, account signal.AccountID, n int) (signal.Position, error) {
	var strategies []string
	owner := map[string]signal.AgentID{}
	for _, a := range signal.Agents() {
		for _, s := range a.Strategies {
			strategies = append(strategies, s)
			owner[s] = a.ID
		}
	}
	var mu sync.Mutex // guards last
	var last signal.Position
	var group errgroup.Group
	for first := range listWriters {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(1, uint64(first)))
			zipf := rand.NewZipf(random, 1.2, 1, listAssets-1)
			for i := first; i < n; i += listWriters {
				strategy := strategies[random.IntN(len(strategies))]
				s := w.newSignal(account, listAsset(zipf.Uint64()))
				s.Strategy, s.Agent = strategy, owner[strategy]
				s.Confidence = float64(random.IntN(10_001)) / 10_000
				if random.IntN(2) == 0 {
					s.Direction = signal.Short
				}
				if s.Agent == "weather" && random.IntN(listForecasts) == 0 {
					s.Weather = &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: random.Float64()}
					prior := .3 + .2*random.Float64()
					s.Metadata = fmt.Appendf(nil, `{"indicators":["degree_days"],"prior":%.4f,"tau":0.02}`, prior)
				}
				at, err := w.open(ctx, s)
				if err == nil && i%listOpenShare != 0 {
					at, err = w.close(ctx, s, at)
				}
				if err != nil {
					return err
				}
				mu.Lock()
				last = last.Later(at)
				mu.Unlock()
			}
			return nil
		})
	}
	return last, group.Wait()
}

// openMany opens n signals of the accounts, on watchedAssets assets around a price of 100.
func (w *signalWriter) openMany(ctx context.Context, accounts []signal.AccountID, n int) error {
	var group errgroup.Group
	for first := range watchedWriters {
		group.Go(func() error {
			for i := first; i < n; i += watchedWriters {
				reach := 5 + float64(i%1000)/100
				s := w.newSignal(accounts[i%len(accounts)], watchedAsset(i%watchedAssets))
				s.Levels = &signal.Levels{Entry: 100, Stop: 100 - reach/1.5, Target: 100 + reach}
				if _, err := w.open(ctx, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
