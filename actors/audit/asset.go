package audit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Reasons why signals are not recomputed, in addition to those of package backtest.
const (
	reasonAgent  = "its agent is not trading"
	reasonOwn    = "an agent of the account has made it"
	reasonAsset  = "the prices of the asset are no longer stored"
	reasonSource = "the prices of the asset come from another source now, or at another speed"
	reasonMany   = "more signals are stored than an audit by schedule takes"
	reasonBars   = "too few bars before it are stored: a strategy looks back at 1,000"
)

// audited holds the stored prices of an asset.
type audited struct {
	record *marketdata.Asset // nil: no prices
	prices backtest.Prices
	// slippage is that of a backtest, and closedSince from when on closed signals are replayed.
	slippage    float64
	closedSince time.Time
	audits      map[signal.Timeframe]*backtest.Audit
	gaps        map[signal.Timeframe]string // reasons for missing audits
}

// stored has the stored outcomes of a timeframe.
type stored struct {
	*strategy.Pool
	whole bool // none was trimmed
}

// priceReader reads the stored prices of assets, and each pool once.
type priceReader struct {
	*Sources
	pools map[signal.Timeframe]stored
}

// pool returns the stored outcomes of a timeframe.
func (r *priceReader) pool(ctx context.Context, tf signal.Timeframe) (stored, error) {
	p, ok := r.pools[tf]
	if !ok {
		var err error
		if p.Pool, p.whole, err = StoredPool(ctx, r.Outcomes, tf); err != nil {
			return p, err
		}
		r.pools[tf] = p
	}
	return p, nil
}

// asset reads the stored prices of an asset.
func (r *priceReader) asset(ctx context.Context, key string) (*audited, error) {
	record, live, err := r.Prices.Asset(ctx, key)
	if signal.KindOf(err) == signal.KindNotFound {
		return &audited{}, nil
	}
	if err != nil {
		return nil, err
	}
	of := &audited{
		record: &record,
		prices: backtest.Prices{
			Bars:   map[signal.Timeframe][]marketdata.Bar{},
			Speed:  max(1, record.Speed),
			Ticks:  live.Last.Time != 0,
			Sparse: market.Thinned(&record),
			Expires: func(created time.Time, d time.Duration, tf signal.Timeframe) time.Time {
				return market.ExpiryOf(&record, created, d, tf)
			},
			Left: func(created, expires, at int64) float64 { return market.LeftOf(&record, created, expires, at) },
		},
		slippage: r.Slippage,
		audits:   map[signal.Timeframe]*backtest.Audit{},
		gaps:     map[signal.Timeframe]string{},
	}
	for _, tf := range signal.Timeframes {
		stored, _, err := r.Prices.Bars(ctx, record.Symbol, tf)
		if err != nil {
			return nil, err
		}
		bars := make([]marketdata.Bar, len(stored))
		for i := range stored {
			bars[i] = stored[i].Bar
		}
		of.prices.Bars[tf] = bars
		filled, err := market.History(stored, &record, tf)
		if err != nil {
			of.gaps[tf] = err.Error()
			continue
		}
		pool, err := r.pool(ctx, tf)
		if err != nil {
			return nil, err
		}
		origin := market.OriginOf(&record, "")
		origin.Cost = r.Costs.Of(record.Class)
		of.audits[tf] = backtest.NewAudit(origin, tf, filled).InPool(pool.Pool, OutcomeKey(&record), pool.whole)
	}
	return of, nil
}

// check compares a signal with the prices of its asset. It must be called in the order of
// the signals' creation.
// Found is what was found before.
func (a *audited) check(s *signal.Signal, updates []Update, found []backtest.Difference, report *Report) error {
	var made backtest.Verdict
	found = append(found, backtest.CheckClosing(s)...)
	how, reason := backtest.NotCompared, ""
	switch {
	case s.Levels == nil:
		made.Reason, reason = otherAgent(s), backtest.EndsContent
	case a.record == nil:
		made.Reason, reason = reasonAsset, reasonAsset
	case !madeBy(s, a.record):
		made.Reason, reason = reasonSource, reasonSource
	default:
		var ended []backtest.Difference
		ended, how, reason = a.prices.CheckEnd(s)
		found = append(found, ended...)
		found = append(found, a.checkPublished(s, updates, report)...)
		if replayed := a.replay(s, report); len(ended) == 0 {
			found = append(found, replayed...)
		}
		switch check := a.audits[s.Timeframe]; {
		case s.Agent != "trading":
			made.Reason = otherAgent(s)
		case check == nil:
			made.Reason = a.gaps[s.Timeframe]
		default:
			var err error
			if made, err = check.Check(s); err != nil {
				return err
			}
			found = append(found, made.Differences...)
		}
	}
	report.add(s, &made, how, reason, found)
	return nil
}

// otherAgent returns the reason why a signal is not recomputed that the trading agent has not made.
func otherAgent(s *signal.Signal) string {
	if s.Agent.BuiltIn() {
		return reasonAgent
	}
	return reasonOwn
}

// madeBy reports whether the prices of a signal are of the present source of its asset.
func madeBy(s *signal.Signal, record *marketdata.Asset) bool {
	var m struct {
		Source      string  `json:"source"`
		Compression float64 `json:"time_compression"`
	}
	return json.Unmarshal(s.Metadata, &m) == nil && m.Source == record.Source &&
		max(1, m.Compression) == float64(max(1, record.Speed))
}
