package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/heap"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Signals reads stored signals. See signals.Store of persistence.
type Signals interface {
	EachSignal(ctx context.Context, partition int, f func(*signal.Signal) error) error
}

// Prices reads stored prices. See market.Store of persistence.
type Prices interface {
	Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error)
	Bars(ctx context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error)
}

// Outcomes reads stored outcomes. See outcomes.Store of persistence.
type Outcomes interface {
	// All returns the outcomes of a timeframe, and whether none was trimmed.
	All(ctx context.Context, tf signal.Timeframe) ([]marketdata.AssetOutcome, bool, error)
}

// Sources are what an audit reads.
type Sources struct {
	Signals  Signals
	Prices   Prices
	Outcomes Outcomes
	Records  Records // nil: the record is not compared
	Updates  Updates // nil: published updates are not compared
	Costs    backtest.Costs
	Slippage float64 // of a backtest on 1h, in R
}

// Options are what an audit covers.
type Options struct {
	Partitions []int
	Account    signal.AccountID // empty: all
	Kept       time.Time        // signals since then must be stored
	// ClosedSince is from when on closed signals are compared with a backtest.
	ClosedSince time.Time
	// MaxSignals bounds the signals that are held in memory, about two kilobytes each, to those of
	// all partitions that were made last. 0: no bound.
	MaxSignals int
	// Pause is called again and again, so that an audit leaves the processor to others. nil: it
	// does not.
	Pause func(context.Context) error
}

// Run checks signals, and returns the report of all and those of their accounts.
func Run(ctx context.Context, from Sources, o Options) (*Report, map[signal.AccountID]*Report, error) {
	a := &auditor{from: &from, o: o, all: newReport(), accounts: map[signal.AccountID]*Report{},
		updates:  updateReader{from: from.Updates, of: map[signal.SignalID][]Update{}},
		prices:   priceReader{&from, map[signal.Timeframe]stored{}},
		outlooks: outlooks{}, byAsset: map[string][]*signal.Signal{}}
	if err := a.read(ctx); err != nil {
		return nil, nil, err
	}
	for key, signals := range a.byAsset {
		delete(a.byAsset, key)
		if err := a.checkAsset(ctx, key, signals); err != nil {
			return nil, nil, err
		}
	}
	for account, r := range a.accounts {
		r.judge()
		r.sort()
		a.all.merge(account, r)
	}
	a.all.judge()
	a.all.sort()
	return a.all, a.accounts, nil
}

// auditor is an audit in progress.
type auditor struct {
	from     *Sources
	o        Options
	all      *Report // at first only what is of no account
	accounts map[signal.AccountID]*Report
	byAsset  map[string][]*signal.Signal // by key of the store
	prices   priceReader
	updates  updateReader
	outlooks outlooks
}

// of returns the report of an account, or nil if the audit does not cover it.
func (a *auditor) of(account signal.AccountID) *Report {
	if a.o.Account != "" && account != a.o.Account {
		return nil
	}
	r := a.accounts[account]
	if r == nil {
		r = newReport()
		a.accounts[account] = r
	}
	return r
}

// read reads the signals of all partitions, and compares the record of each.
func (a *auditor) read(ctx context.Context) error {
	older := func(s, t *signal.Signal) bool { return s.CreatedAt.Before(t.CreatedAt) }
	kept := heap.New(older, func(*signal.Signal, int) {})
	for _, p := range a.o.Partitions {
		if err := a.checkRecord(ctx, p); err != nil {
			return err
		}
		err := a.from.Signals.EachSignal(ctx, p, func(s *signal.Signal) error {
			if a.o.Account != "" && s.Account != a.o.Account {
				return nil
			}
			kept.Push(s)
			if a.o.MaxSignals > 0 && kept.Len() > a.o.MaxSignals {
				a.leaveOut(kept.Top())
				kept.Remove(0)
			}
			return nil
		})
		if err == nil {
			err = a.updates.readPartition(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	for s := range kept.All() {
		key := assets.Key(s.Asset)
		a.byAsset[key] = append(a.byAsset[key], s)
	}
	return nil
}

// checkRecord adds what the record of a partition shows to the reports of its accounts, and what
// is of no account to all.
func (a *auditor) checkRecord(ctx context.Context, p int) error {
	if a.from.Records == nil {
		return nil
	}
	c, err := a.from.Records.CheckLeaves(ctx, p, a.o.Kept)
	if err != nil {
		return fmt.Errorf("check record of partition %d: %w", p, err)
	}
	if a.o.Account == "" {
		a.all.Record.merge(&Record{Leaves: c.Leaves, Matched: c.Compared, Trimmed: c.Trimmed, Erased: c.Erased,
			Unknown: c.Unknown})
	}
	for account, n := range c.Accounts {
		if r := a.of(account); r != nil {
			r.Record.Created, r.Record.Closed = n.Created, n.Closed
		}
	}
	for _, f := range c.Findings {
		r := a.of(f.Account)
		if f.Account == "" {
			r = a.all
		}
		if r != nil {
			r.Record.Differing = append(r.Record.Differing, Finding{f.Account, f.Signal, p, f.Leaf, f.What})
		}
	}
	return nil
}

// leaveOut counts a signal that is not compared.
func (a *auditor) leaveOut(s *signal.Signal) {
	made := backtest.Verdict{Reason: reasonMany}
	a.of(s.Account).add(s, &made, backtest.NotCompared, reasonMany, nil)
}

// pauseEvery is after how many signals an audit may pause.
const pauseEvery = 100

// checkAsset compares the signals of an asset with its prices.
func (a *auditor) checkAsset(ctx context.Context, key string, signals []*signal.Signal) error {
	slices.SortFunc(signals, func(a, b *signal.Signal) int { return a.CreatedAt.Compare(b.CreatedAt) })
	of, err := a.prices.asset(ctx, key)
	if err != nil {
		return fmt.Errorf("read prices of %s: %w", key, err)
	}
	of.closedSince = a.o.ClosedSince
	for i, s := range signals {
		if i%pauseEvery == 0 {
			if err := a.pause(ctx); err != nil {
				return err
			}
		}
		r := a.of(s.Account)
		if err := of.check(s, a.updates.of[s.ID], a.outlooks.check(s, r), r); err != nil {
			return fmt.Errorf("audit %s: %w", s.ID, err)
		}
	}
	return nil
}

func (a *auditor) pause(ctx context.Context) error {
	if a.o.Pause != nil {
		return a.o.Pause(ctx)
	}
	return ctx.Err()
}

// StoredPool reads the stored outcomes of a timeframe. whole reports whether all that were
// ever stored are among them.
func StoredPool(ctx context.Context, from Outcomes, tf signal.Timeframe) (pool *strategy.Pool, whole bool, err error) {
	all, whole, err := from.All(ctx, tf)
	if err != nil {
		return nil, false, err
	}
	pool = strategy.NewPool(0)
	for i := range all {
		pool.Add(all[i].Asset, all[i].Outcome)
	}
	return pool, whole, nil
}

// OutcomeKey returns the key of an asset in a pool.
func OutcomeKey(record *marketdata.Asset) string {
	return strategy.OutcomeKey(record.Source, float64(record.Speed), record.Symbol)
}
