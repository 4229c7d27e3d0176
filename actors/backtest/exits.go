package backtest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Prices is what is stored of the prices of an asset.
type Prices struct {
	// Bars are as they are stored, ascending, gaps not filled.
	Bars  map[signal.Timeframe][]marketdata.Bar
	Speed int64 // by how much the asset's time is compressed, 1 or more
	Ticks bool  // trades are known, too: then signals close by them, at any moment
	// Sparse says that bars hold more prices than the trades that were told: a level that
	// a bar touched need not have been reached.
	Sparse bool
	// Expires returns when the asset has been traded for so long after a time, in bars of a
	// timeframe. Nil: it always is.
	Expires func(created time.Time, d time.Duration, tf signal.Timeframe) time.Time
}

// Compared is how the end of a signal was compared with bars.
type Compared int

// The ways.
const (
	NotCompared Compared = iota
	Replayed             // price, reason and time were found again from bars
	Within               // the bars of its life allow them
)

// EndsContent is why the end of a signal without prices is not compared.
const EndsContent = "it has no prices"

// Other reasons why ends are not compared.
const (
	endsBars   = "the bars of its life are stored no more"
	endsMoment = "no bar is stored of the moment at which it closed"
	endsStale  = "it closed for want of prices: bars that came later do not show what was known"
)

const (
	// settleTime is how long, in milliseconds before the newest bar, a signal may be open
	// that has ended by the bars: its closing may be on its way.
	settleTime = 60_000
	// priceShare is how far a closing price may lie from an observed one because it is
	// rounded, as a share of the entry.
	priceShare = 1e-7
	// excursionSlack is what excursions may differ by because they are computed otherwise.
	excursionSlack = 1e-6
)

// life is the bars of a signal, of the finest timeframe that holds its creation.
type life struct {
	*Prices
	s       *signal.Signal
	bars    []marketdata.Bar // from the one before that in which it was born
	length  int64            // of a bar, in milliseconds of market time
	finest  bool             // no finer bars are stored
	created int64
	expires int64
}

// CheckEnd compares how a signal ended with the bars of its life: with the very end that
// they give if it was closed by bars, else with what they allow. A signal that is open
// must not have ended by them. The reason says why nothing could be compared.
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
		return nil, NotCompared, EndsContent // CheckClosing names that
	}
	at := s.Closing.At.UnixMilli()
	var resolved resolution
	json.Unmarshal(s.Metadata, &resolved) // else it has none
	byBars := resolved.By == "backfill" || !p.Ticks
	switch how = Within; {
	case resolved.Stale:
		return nil, NotCompared, endsStale
	case byBars && l.finest:
		how = Replayed
		found, reason = l.replay()
	case byBars:
		found, reason = l.allows(at - 1) // a finer bar ended then
	default:
		if found, reason = l.allows(at); len(found) > 0 && l.finest {
			// A source whose trades have ceased closes by bars.
			if other, none := l.replay(); none == "" && len(other) == 0 {
				found, how = nil, Replayed
			}
		}
	}
	if reason != "" {
		return nil, NotCompared, reason
	}
	return append(found, l.checkExcursion(at)...), how, ""
}

// expirySlack is what an expiry may differ by, in milliseconds: it was counted from when
// the run ended.
const expirySlack = 1000

// checkExpiry compares when a signal expires with the length of its life.
func (p *Prices) checkExpiry(s *signal.Signal) []Difference {
	stored := s.ExpiresAt.UnixMilli()
	want := p.after(s.CreatedAt.UnixMilli(), strategy.Lifetime(s.Timeframe, s.Risk, float64(p.Speed)), s.Timeframe)
	if max(stored-want, want-stored) <= expirySlack {
		return nil
	}
	return []Difference{{"expires_at", moment(stored), moment(want)}}
}

// lifeOf returns the bars of s, or false if none hold its beginning.
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

// before returns how many bars open before a time.
func before(bars []marketdata.Bar, at int64) int {
	n, _ := slices.BinarySearchFunc(bars, at, func(b marketdata.Bar, at int64) int {
		if b.OpenTime < at {
			return -1
		}
		return 1
	})
	return n
}

// resolution is what the metadata say of an end.
type resolution struct {
	By    string `json:"resolved_by"`
	Stale bool   `json:"stale_exit"`
}

// patience returns until when a signal waits for a price after its expiry.
func (l *life) patience() int64 {
	wait := strategy.GracePeriod(l.s.Timeframe.Duration().Milliseconds() / l.Speed)
	return l.after(l.expires, time.Duration(wait)*time.Millisecond, l.s.Timeframe)
}

// after returns when the asset has been traded for so long after a time.
func (p *Prices) after(ms int64, d time.Duration, tf signal.Timeframe) int64 {
	if p.Expires == nil {
		return ms + d.Milliseconds()
	}
	return p.Expires(time.UnixMilli(ms), d, tf).UnixMilli()
}

// ends says that b, one of its bars, ends the signal.
func (l *life) ends(b marketdata.Bar) (strategy.Exit, bool) {
	return strategy.ExitOnBar(l.s.Direction, *l.s.Levels, b)
}

// replay finds the end by the rules for bars and compares.
func (l *life) replay() ([]Difference, string) {
	limit := time.Duration(strategy.BarAge(l.length, l.Speed)) * time.Millisecond
	newest, price := int64(0), l.s.Levels.Entry // of the expiry, by the bars so far
	for _, b := range l.bars {
		if b.CloseTime > l.expires && l.after(newest, limit, signal.M1) >= l.expires {
			break // it has expired
		}
		exit, ended := l.ends(b)
		switch ended = ended && b.OpenTime >= l.created; {
		case b.CloseTime > l.patience():
			return nil, endsStale
		case ended:
			return l.compare(exit, b.CloseTime), ""
		case b.CloseTime > l.expires:
			return l.compare(strategy.ExitOnExpiry(b.Close), b.CloseTime), ""
		}
		if newest = b.CloseTime; newest > l.created {
			price = b.Close
		}
	}
	if l.bars[len(l.bars)-1].CloseTime < l.expires {
		return nil, endsMoment
	}
	return l.compare(strategy.ExitOnExpiry(price), l.expires), ""
}

// compare returns in what the stored end is not this one.
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

// allows says what of the stored end cannot be by the bar that holds a moment and those
// before it.
func (l *life) allows(at int64) ([]Difference, string) {
	c := l.s.Closing
	if closed := c.At.UnixMilli(); c.Reason == signal.Expired && closed < l.expires || closed > l.patience() {
		return []Difference{{"closed_at", moment(closed), moment(l.expires)}}, ""
	}
	place := before(l.bars, at+1) - 1
	if place < 0 || l.bars[place].CloseTime <= at {
		return nil, endsMoment
	}
	if b, exit, ended := l.endedBy(at); ended && !l.Sparse {
		return []Difference{{"closed_at", moment(c.At.UnixMilli()), string(exit.Reason) + " in the bar of " + moment(b.OpenTime)}}, ""
	}
	b, exit, slack := l.bars[place], *c.ExitPrice, priceShare*l.s.Levels.Entry
	best := b.High
	if l.s.Direction == signal.Short {
		best = b.Low
	}
	reached, ended := strategy.ExitOnTick(l.s.Direction, *l.s.Levels, best)
	switch c.Reason {
	case signal.TakeProfit: // left there, also if the market jumped beyond it
		if ended && reached.Reason == signal.TakeProfit {
			return nil, ""
		}
	case signal.Expired:
		if place > 0 && math.Abs(exit-l.bars[place-1].Close) <= slack {
			return nil, "" // nobody had traded in b
		}
		fallthrough
	default:
		if exit >= b.Low-slack && exit <= b.High+slack {
			return nil, ""
		}
	}
	return []Difference{{"exit_price", decimal(exit), fmt.Sprintf("%s to %s in the bar of %s", decimal(b.Low), decimal(b.High), moment(b.OpenTime))}}, ""
}

// endedBy returns the first bar that ends the signal of those that close by a time.
func (l *life) endedBy(at int64) (marketdata.Bar, strategy.Exit, bool) {
	for _, b := range l.bars {
		if b.CloseTime > at {
			break
		}
		if exit, ended := l.ends(b); ended && b.OpenTime > l.created {
			return b, exit, true
		}
	}
	return marketdata.Bar{}, strategy.Exit{}, false
}

// checkOpen says whether an open signal has ended by the bars.
func (l *life) checkOpen() []Difference {
	until := l.bars[len(l.bars)-1].CloseTime - settleTime
	if b, exit, ended := l.endedBy(until); ended && !l.Sparse {
		return []Difference{{"status", string(signal.Open), string(exit.Reason) + " in the bar of " + moment(b.OpenTime)}}
	}
	if l.patience() < until {
		return []Difference{{"status", string(signal.Open), "expired at " + moment(l.expires)}}
	}
	return nil
}

// checkExcursion compares how far the price went with the bars up to the end: not as far
// as it went in those that lie within the signal's life, nor farther than in any.
func (l *life) checkExcursion(at int64) []Difference {
	end := strategy.R(l.s.Direction, *l.s.Levels, *l.s.Closing.ExitPrice)
	most := strategy.Excursion{Best: max(0, end), Worst: min(0, end)}
	var least strategy.Excursion
	for _, b := range l.bars {
		if b.OpenTime > at {
			break
		}
		if b.CloseTime <= l.created {
			continue
		}
		most = most.Observe(l.s.Direction, *l.s.Levels, b.Low, b.High)
		if b.OpenTime > l.created && b.CloseTime < at && !l.Sparse {
			least = least.Observe(l.s.Direction, *l.s.Levels, b.Low, b.High)
		}
	}
	var d []Difference
	for _, x := range [...]struct {
		member            string
		stored, low, high float64
	}{{"mfe", l.s.MFE, least.Best, most.Best}, {"mae", l.s.MAE, most.Worst, least.Worst}} {
		if !(x.stored >= x.low-excursionSlack && x.stored <= x.high+excursionSlack) {
			d = append(d, Difference{x.member, decimal(x.stored), fmt.Sprintf("%.6f to %.6f", x.low, x.high)})
		}
	}
	return d
}

// moment returns a time in milliseconds as clients see it.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(signal.TimeLayout) }
