package backtest

import (
	"encoding/json"
	"math"
	"sort"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Reasons that explain why a signal ended live in another way than in a backtest over its bars.
const (
	bySlippage = "slippage: it closed at a trade beyond its stop"
	byTrade    = "it ended by a trade in the bar of its expiry, of which a backtest sees nothing"
	byBirth    = "it closed by a trade in the bar of its creation, of which a backtest sees nothing"
	byBoth     = "the bar has reached stop and target, and does not show which came first"
	byThinning = "its bars have prices that were not published as trades"
)

// LiveEnd compares the live end of a signal with that of a backtest over its bars.
type LiveEnd struct {
	Live, Backtest float64 // in R, before costs
	Explained      string  // the reason of a difference; empty for an equal end, and for a difference without one
	Differences    []Difference
}

// AgainstBacktest replays a closed signal with levels over its bars. The reason is set if it
// cannot be replayed.
func (p *Prices) AgainstBacktest(s *signal.Signal, slippage float64) (end LiveEnd, reason string) {
	l, ok := p.lifeOf(s)
	var resolved resolution
	_ = json.Unmarshal(s.Metadata, &resolved) // other metadata leave the zero value
	switch {
	case !ok || !l.finest:
		return end, endsBars
	case s.Closing.Reason == signal.AgentExit:
		return end, endsAgent
	case resolved.Stale:
		return end, endsStale
	case s.Closing.ExitPrice == nil:
		return end, EndsContent
	}
	b, exit, at, reason := l.byBars()
	if reason != "" {
		return end, reason
	}
	end.Live = strategy.R(s.Direction, *s.Levels, *s.Closing.ExitPrice)
	end.Backtest = strategy.R(s.Direction, *s.Levels, exit.Price)
	if exit.Reason == signal.StopLoss && exit.Price == s.Levels.Stop {
		end.Backtest -= slippage
	}
	if found := l.compare(exit, at); len(found) > 0 && !l.sameByTrades(b, exit) {
		if end.Explained = l.explain(b, exit); end.Explained == "" {
			end.Differences = found
		}
	}
	return end, ""
}

// sameByTrades reports whether the signal was closed by a trade within b in the same way: a
// backtest closes it at the end of the bar.
func (l *life) sameByTrades(b marketdata.Bar, exit strategy.Exit) bool {
	c := l.s.Closing
	return l.Ticks && c.Reason == exit.Reason && *c.ExitPrice == exit.Price && within(b, c.At.UnixMilli())
}

func within(b marketdata.Bar, at int64) bool { return b.OpenTime <= at && at <= b.CloseTime }

// explain returns why the stored end differs from the exit by b, or "" if nothing explains it.
func (l *life) explain(b marketdata.Bar, exit strategy.Exit) string {
	if !l.Ticks {
		return ""
	}
	c := l.s.Closing
	at := c.At.UnixMilli()
	mirror := *l.s.Levels
	mirror.Stop, mirror.Target = mirror.Target, mirror.Stop
	opposite := signal.Long
	if l.s.Direction == signal.Long {
		opposite = signal.Short
	}
	other, both := strategy.ExitOnBar(opposite, mirror, b)
	both = both && other.Reason == signal.StopLoss && exit.Reason == signal.StopLoss
	switch {
	case l.inBirth(at):
		return byBirth
	case l.Sparse:
		return byThinning
	case exit.Reason == signal.Expired && b.CloseTime <= at && at <= l.expires: // after b, the last bar before the expiry
		return byTrade
	case !within(b, at):
		return ""
	case c.Reason == signal.StopLoss && exit.Reason == signal.StopLoss:
		return bySlippage
	case both:
		return byBoth
	case c.Reason == signal.Expired || exit.Reason == signal.Expired && within(b, l.expires):
		return byTrade
	}
	return ""
}

// inBirth reports whether a time lies in the bar in which the signal was created.
func (l *life) inBirth(at int64) bool {
	for _, b := range l.bars {
		if b.OpenTime < l.created && l.created < b.CloseTime && within(b, at) {
			return true
		}
	}
	return false
}

// confidenceSlack is the tolerance for a published confidence, which has four decimals.
const confidenceSlack = 0.00011

// whyForecasts is the reason why the confidence of a signal with forecasts is not recomputed.
const whyForecasts = "forecasts have moved its confidence"

// whyUnfinished is the reason why a confidence is not compared yet that may be of a trade after
// the newest bar.
const whyUnfinished = "the bar of its price is not over"

// CheckPublished compares a confidence that was published of s with its bars. at is when it was,
// in milliseconds. Without trades it must be the value of one close up to then; final reports that
// it is the last one, which must be that of all closes in their order unless an update was missed.
// With trades it must lie between the values of the lowest and the highest price around a close.
func (p *Prices) CheckPublished(s *signal.Signal, confidence float64, at int64, final bool) (
	found []Difference, how Compared, reason string,
) {
	created, expires := s.CreatedAt.UnixMilli(), s.ExpiresAt.UnixMilli()
	bars := p.Bars[s.Timeframe]
	switch {
	case s.Levels == nil:
		return nil, NotCompared, EndsContent
	case s.Agent == "weather":
		return nil, NotCompared, whyForecasts
	case len(bars) == 0 || bars[0].OpenTime > created:
		return nil, NotCompared, endsBars
	}
	score := func(at int64, price float64) float64 {
		return strategy.RescoreAt(s, s.FirstConfidence, p.left(created, expires, at), price)
	}
	replayed, held, unfinished := s.FirstConfidence, final && confidence == s.FirstConfidence, false
	first := sort.Search(len(bars), func(i int) bool { return bars[i].CloseTime > created })
	for i := first; i < len(bars) && bars[i].CloseTime < expires && bars[i].CloseTime <= at; i++ {
		b := bars[i]
		low, high := b.Close, b.Close
		if p.Ticks { // the last price may be a trade before the close, or after it
			low, high = b.Low, b.High
			if i+1 == len(bars) {
				unfinished = true
			} else {
				low, high = min(low, bars[i+1].Low), max(high, bars[i+1].High)
			}
		}
		x, y := score(b.CloseTime, low), score(b.CloseTime, high)
		held = held || confidence >= min(x, y)-confidenceSlack && confidence <= max(x, y)+confidenceSlack
		if strategy.Moved(replayed, x) && (b.CloseTime < at || !final) {
			replayed = x
		}
	}
	switch {
	case !p.Ticks && math.Abs(confidence-replayed) <= confidenceSlack:
		return nil, Replayed, ""
	case held:
		return nil, Within, ""
	case unfinished:
		return nil, NotCompared, whyUnfinished
	}
	now := "another value in all bars"
	if !p.Ticks {
		now = decimal(replayed)
	}
	member := "confidence at " + moment(at)
	if final {
		member = "final_confidence"
	}
	return []Difference{{member, decimal(confidence), now}}, Within, ""
}

// left returns the share of the time of a signal, while the market is open, that is left.
func (p *Prices) left(created, expires, at int64) float64 {
	if p.Left != nil {
		return p.Left(created, expires, at)
	}
	return float64(expires-max(created, at)) / float64(max(1, expires-created))
}
