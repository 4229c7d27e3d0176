package backtest

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Prices holds the stored prices of an asset.
type Prices struct {
	// Bars are the stored ones, ascending, with gaps not filled.
	Bars  map[signal.Timeframe][]marketdata.Bar
	Speed int64 // market time runs this many times as fast as the clock, 1 or more
	Ticks bool  // trades are known as well, so that signals close by them at any moment
	// Sparse means that bars include prices of trades that were not published: a level
	// that a bar touched may not have been reached by a tick.
	Sparse bool
	// Expires returns the time at which the asset has been traded for d since created, in
	// bars of tf. Nil: it is traded around the clock.
	Expires func(created time.Time, d time.Duration, tf signal.Timeframe) time.Time
	// Left returns the share of the time between two that is left at a third, in milliseconds,
	// while the asset is traded. Nil: it is traded around the clock.
	Left func(created, expires, at int64) float64
}

// Compared is the way in which the end of a signal was compared with bars.
type Compared int

const (
	NotCompared Compared = iota
	Replayed             // price, reason and time were reproduced from bars
	Within               // the bars of its life allow the stored end
)

// EndsContent is the reason why the end of a signal without prices is not compared.
const EndsContent = "it has no prices"

// The other reasons why an end is not compared.
const (
	endsBars   = "the bars of its life are no longer stored"
	endsMoment = "no bar is stored of the moment at which it closed"
	endsAgent  = "its agent has ended it, at a price that bars do not show"
	endsStale  = "it closed for want of prices: bars that came later do not show what was known"
)

const (
	// settleTime is for how long, in milliseconds up to the newest bar, a signal that has
	// ended by the bars may still be open, since its closing may not be stored yet.
	settleTime = 60_000
	// priceShare is the tolerance for the rounding of a closing price, as a share of the
	// entry.
	priceShare = 1e-7
	// excursionSlack is the tolerance for excursions, which are computed in another way.
	excursionSlack = 1e-6
)

// life holds the bars of a signal, of the finest timeframe that covers its creation.
type life struct {
	*Prices
	s       *signal.Signal
	bars    []marketdata.Bar // from the one before that in which it was created
	length  int64            // of a bar, in milliseconds of market time
	finest  bool             // no finer bars are stored
	created int64
	expires int64
}

// CheckEnd compares the end of a signal with the bars of its life: exactly if it was
// closed by bars, otherwise with what they allow. An open signal must not have ended by
// the bars. The reason is set if nothing could be compared.
func (p *Prices) CheckEnd(s *signal.Signal) (found []Difference, how Compared, reason string) {
	if s.Levels == nil {
		return nil, NotCompared, EndsContent
	}
	defer func() { found = append(p.checkExpiry(s), found...) }()
	l, ok := p.lifeOf(s)
	if !ok {
		return nil, NotCompared, endsBars
	}
	if s.Closing == nil {
		return l.checkOpen(), Within, ""
	}
	if s.Closing.ExitPrice == nil {
		return nil, NotCompared, EndsContent // CheckClosing reports it
	}
	at := s.Closing.At.UnixMilli()
	var resolved resolution
	_ = json.Unmarshal(s.Metadata, &resolved) // other metadata leave the zero value
	byBars := resolved.By == "backfill" || !p.Ticks
	switch how = Within; {
	case s.Closing.Reason == signal.AgentExit:
		return l.checkExit(resolved.Requested), NotCompared, endsAgent
	case resolved.Stale:
		return nil, NotCompared, endsStale
	case byBars && l.finest:
		how = Replayed
		found, reason = l.replay()
	case byBars:
		found, reason = l.allows(at - 1) // it ended with a finer bar
	default:
		if found, reason = l.allows(at); len(found) > 0 && l.finest {
			// Signals close by bars once a source has no more trades.
			if other, reason := l.replay(); reason == "" && len(other) == 0 {
				found, how = nil, Replayed
			}
		}
	}
	if reason != "" {
		return nil, NotCompared, reason
	}
	return append(found, l.checkExcursion(at)...), how, ""
}

// expirySlack is the tolerance of an expiry in milliseconds: it was counted from the end
// of the run.
const expirySlack = 1000

// checkExpiry compares the expiry of a signal with its lifetime. An agent of an account chooses that itself.
func (p *Prices) checkExpiry(s *signal.Signal) []Difference {
	if !s.Agent.BuiltIn() {
		return nil
	}
	stored := s.ExpiresAt.UnixMilli()
	want := p.after(s.CreatedAt.UnixMilli(), strategy.Lifetime(s.Timeframe, s.Risk, float64(p.Speed)), s.Timeframe)
	if max(stored-want, want-stored) <= expirySlack {
		return nil
	}
	return []Difference{{"expires_at", moment(stored), moment(want)}}
}

// lifeOf returns the life of s, or false if no bars cover its creation.
func (p *Prices) lifeOf(s *signal.Signal) (*life, bool) {
	l := &life{Prices: p, s: s, created: s.CreatedAt.UnixMilli(), expires: s.ExpiresAt.UnixMilli(), finest: true}
	for _, tf := range signal.Timeframes {
		bars := p.Bars[tf]
		if len(bars) > 0 && bars[0].OpenTime <= l.created {
			l.length = tf.Duration().Milliseconds()
			l.bars = bars[max(0, before(bars, l.created+1)-2):]
			return l, true
		}
		l.finest = l.finest && len(bars) == 0
	}
	return nil, false
}

// before returns the number of bars that open before a time.
func before(bars []marketdata.Bar, at int64) int {
	return sort.Search(len(bars), func(i int) bool { return bars[i].OpenTime >= at })
}

// resolution is the part of the metadata that describes the end.
type resolution struct {
	By        string    `json:"resolved_by"`
	Stale     bool      `json:"stale_exit"`
	Requested time.Time `json:"exit_requested_at"`
}

// isFirst reports whether b, in which the signal was created, counts: where no trades are known,
// the entry is the close of a bar before b. That is not known of a bar that is longer than those
// of the signal.
func (l *life) isFirst(b marketdata.Bar) bool {
	return !l.Ticks && b.OpenTime < l.created && l.created < b.CloseTime &&
		l.length <= l.s.Timeframe.Duration().Milliseconds()
}

// graceEnd returns until when the signal waits for a price after its expiry.
func (l *life) graceEnd() int64 {
	wait := strategy.GracePeriod(l.s.Timeframe.Duration().Milliseconds() / l.Speed)
	return l.after(l.expires, time.Duration(wait)*time.Millisecond, l.s.Timeframe)
}

// after returns the time at which the asset has been traded for d since ms.
func (p *Prices) after(ms int64, d time.Duration, tf signal.Timeframe) int64 {
	if p.Expires == nil {
		return ms + d.Milliseconds()
	}
	return p.Expires(time.UnixMilli(ms), d, tf).UnixMilli()
}

// ends returns the exit by b, or false if b does not end the signal.
func (l *life) ends(b marketdata.Bar) (strategy.Exit, bool) {
	return strategy.ExitOnBar(l.s.Direction, *l.s.Levels, b)
}

// replay finds the end by the rules for bars and compares it with the stored one.
func (l *life) replay() ([]Difference, string) {
	_, exit, at, reason := l.byBars()
	if reason != "" {
		return nil, reason
	}
	return l.compare(exit, at), ""
}

// byBars returns the end by the rules for bars: the last bar that was looked at, the exit and its
// time, or why the bars give no end.
func (l *life) byBars() (last marketdata.Bar, exit strategy.Exit, at int64, reason string) {
	limit := time.Duration(strategy.BarAge(l.length, l.Speed)) * time.Millisecond
	newest, price := int64(0), l.s.Levels.Entry // of the expiry, by the bars so far
	for _, b := range l.bars {
		if b.CloseTime > l.expires && l.after(newest, limit, signal.M1) >= l.expires {
			break // it has expired
		}
		last = b
		exit, ended := l.ends(b)
		switch ended = ended && (b.OpenTime >= l.created || l.isFirst(b)); {
		case b.CloseTime > l.graceEnd():
			return b, exit, 0, endsStale
		case ended:
			return b, exit, b.CloseTime, ""
		case b.CloseTime > l.expires:
			return b, strategy.ExitOnExpiry(b.Close), b.CloseTime, ""
		}
		if newest = b.CloseTime; newest > l.created {
			price = b.Close
		}
	}
	if l.bars[len(l.bars)-1].CloseTime < l.expires {
		return last, exit, 0, endsMoment
	}
	return last, strategy.ExitOnExpiry(price), l.expires, ""
}

// compare returns the differences between the stored end and the given one.
func (l *life) compare(exit strategy.Exit, at int64) []Difference {
	var d []Difference
	stored, now := l.s.Closing, strategy.Close(l.s, exit, time.UnixMilli(at))
	if stored.Reason != now.Reason {
		d = append(d, Difference{"close_reason", string(stored.Reason), string(now.Reason)})
	}
	if stored.ExitPrice != nil && *stored.ExitPrice != *now.ExitPrice {
		d = append(d, Difference{"exit_price", decimal(*stored.ExitPrice), decimal(*now.ExitPrice)})
	}
	if stored.At.UnixMilli() != at {
		d = append(d, Difference{"closed_at", moment(stored.At.UnixMilli()), moment(at)})
	}
	return d
}

// allows returns the contradictions between the stored end and the bars up to the one that
// covers the time at.
func (l *life) allows(at int64) ([]Difference, string) {
	c := l.s.Closing
	if closed := c.At.UnixMilli(); c.Reason == signal.Expired && closed < l.expires || closed > l.graceEnd() {
		return []Difference{{"closed_at", moment(closed), moment(l.expires)}}, ""
	}
	place := before(l.bars, at+1) - 1
	if place < 0 || l.bars[place].CloseTime <= at {
		return nil, endsMoment
	}
	if b, exit, ended := l.endedBy(at); ended && !l.Sparse {
		return []Difference{{"closed_at", moment(c.At.UnixMilli()), inBar(exit, b)}}, ""
	}
	b, exit, slack := l.bars[place], *c.ExitPrice, priceShare*l.s.Levels.Entry
	best := b.High
	if l.s.Direction == signal.Short {
		best = b.Low
	}
	reached, ended := strategy.ExitOnTick(l.s.Direction, *l.s.Levels, best)
	switch c.Reason {
	case signal.TakeProfit: // closed at the target even if the market jumped beyond it
		if ended && reached.Reason == signal.TakeProfit {
			return nil, ""
		}
	case signal.Expired:
		if place > 0 && math.Abs(exit-l.bars[place-1].Close) <= slack {
			return nil, "" // there was no trade in b
		}
		fallthrough
	default:
		if exit >= b.Low-slack && exit <= b.High+slack {
			return nil, ""
		}
	}
	possible := fmt.Sprintf("%s to %s in the bar of %s", decimal(b.Low), decimal(b.High), moment(b.OpenTime))
	return []Difference{{"exit_price", decimal(exit), possible}}, ""
}

func inBar(exit strategy.Exit, b marketdata.Bar) string {
	return string(exit.Reason) + " in the bar of " + moment(b.OpenTime)
}

// endedBy returns the first bar that ends the signal among those that close by a time.
func (l *life) endedBy(at int64) (marketdata.Bar, strategy.Exit, bool) {
	for _, b := range l.bars {
		if b.CloseTime > at {
			break
		}
		if exit, ended := l.ends(b); ended && (b.OpenTime > l.created || l.isFirst(b)) {
			return b, exit, true
		}
	}
	return marketdata.Bar{}, strategy.Exit{}, false
}

// checkExit returns a difference if bars have ended a signal before its agent did: where no trades are known, with
// the bar of that time.
func (l *life) checkExit(requested time.Time) []Difference {
	until := requested.UnixMilli()
	if c := l.s.Closing.At; requested.Before(l.s.CreatedAt) || c.Before(requested) {
		return []Difference{{"metadata.exit_requested_at", moment(until), "between creation and closing"}}
	}
	if i := before(l.bars, until+1) - 1; !l.Ticks && i >= 0 {
		until = max(until, l.bars[i].CloseTime)
	}
	if b, exit, ended := l.endedBy(until); ended && !l.Sparse {
		return []Difference{{"close_reason", string(signal.AgentExit), inBar(exit, b)}}
	}
	return nil
}

// checkOpen returns a difference if an open signal has ended by the bars.
func (l *life) checkOpen() []Difference {
	until := l.bars[len(l.bars)-1].CloseTime - settleTime
	if b, exit, ended := l.endedBy(until); ended && !l.Sparse {
		return []Difference{{"status", string(signal.Open), inBar(exit, b)}}
	}
	if l.graceEnd() < until {
		return []Difference{{"status", string(signal.Open), "expired at " + moment(l.expires)}}
	}
	return nil
}

// checkExcursion compares the stored excursions with those of the bars up to the end: at
// least those of the bars within the signal's life, and at most those of all bars that
// overlap it.
func (l *life) checkExcursion(at int64) []Difference {
	end := strategy.R(l.s.Direction, *l.s.Levels, *l.s.Closing.ExitPrice)
	maxRange := strategy.Excursion{Best: max(0, end), Worst: min(0, end)}
	var minRange strategy.Excursion
	for _, b := range l.bars {
		if b.OpenTime > at {
			break
		}
		if b.CloseTime <= l.created {
			continue
		}
		maxRange = maxRange.Observe(l.s.Direction, *l.s.Levels, b.Low, b.High)
		if (b.OpenTime > l.created || l.isFirst(b)) && b.CloseTime < at && !l.Sparse {
			minRange = minRange.Observe(l.s.Direction, *l.s.Levels, b.Low, b.High)
		}
	}
	var d []Difference
	for _, x := range [...]struct {
		member            string
		stored, low, high float64
	}{{"mfe", l.s.MFE, minRange.Best, maxRange.Best}, {"mae", l.s.MAE, maxRange.Worst, minRange.Worst}} {
		if !(x.stored >= x.low-excursionSlack && x.stored <= x.high+excursionSlack) {
			d = append(d, Difference{x.member, decimal(x.stored), fmt.Sprintf("%.6f to %.6f", x.low, x.high)})
		}
	}
	return d
}

// moment returns a time in milliseconds in the form that clients see.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(signal.TimeLayout) }
