package strategy

import (
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Sizes of a series in bars.
const (
	window    = 1000 // the bars that an assessment looks at
	warmUp    = 120  // the oldest bars of the window and of the series, which have no scores
	minUsable = 300
	slack     = 250 // the number of older bars kept until they are dropped at once
)

// maxJump is the distance in ATR14 from the close before within which a bar must open. A
// greater one is no move of the market but, say, a split.
const maxJump = 20

// reading holds the features of an earlier bar that are kept.
type reading struct {
	scored    bool
	belowMean bool // close below EMA26, which decides the direction if a score is 0
	atr       float64
	jump      float64 // how far it opened from the close before in ATR14 of that, if too far; else 0
	usable    int     // bars since the series began up to this one that do not fill gaps
	jumped    int     // those of them that jumped
	scores    [len(technicals)]float64
}

// scoredBars holds the newest closed bars of one asset and timeframe with their features and scores.
type scoredBars struct {
	tf    signal.Timeframe
	jumps bool // bars may open any distance from the close before

	seen    int              // bars since the series began
	bars    []marketdata.Bar // newest last
	returns []float64        // log return of each bar
	history []reading        // one for each bar
	// strengths has by strategy the strength of the score at each bar, NaN where there is none.
	strengths [len(technicals)][]float64

	state, before indicators // after the last bar, and after its predecessor
	last          Features
}

// reset removes all bars.
func (b *scoredBars) reset() {
	b.seen, b.bars = 0, b.bars[:0]
	b.cut(0)
	b.state, b.before, b.last = newIndicators(), newIndicators(), Features{}
}

// join returns the index of the first of bars that are lacking. It returns false if bars do not continue
// those there are.
func (b *scoredBars) join(bars []marketdata.Bar) (from int, joined bool) {
	last := b.last.Bar
	if len(b.bars) == 0 {
		return 0, true
	}
	if len(bars) == 0 || bars[len(bars)-1].OpenTime < last.OpenTime {
		return len(bars), true
	}
	for i := len(bars) - 1; i >= 0; i-- {
		switch x := bars[i]; {
		case x == last:
			return i + 1, true
		case x.OpenTime == last.OpenTime || i == 0 && x.OpenTime == last.CloseTime:
			return i, true
		case x.OpenTime < last.OpenTime:
			return 0, false
		}
	}
	return 0, false
}

// append adds a bar, or replaces the last one. Its features are computed by update.
func (b *scoredBars) append(added marketdata.Bar) (replaced bool, err error) {
	n := len(b.bars)
	bars, err := AppendBar(b.bars, added)
	if err != nil {
		return false, err
	}
	b.bars = bars
	if len(bars) == n {
		b.state = b.before
		b.cut(n - 1)
		return true, nil
	}
	b.seen++
	return false, nil
}

// cut keeps what was computed of the first n bars.
func (b *scoredBars) cut(n int) {
	b.returns, b.history = b.returns[:n], b.history[:n]
	for t := range b.strengths {
		b.strengths[t] = b.strengths[t][:n]
	}
}

// full reports whether slack older bars have accumulated, which trim drops at once.
func (b *scoredBars) full() bool { return len(b.bars) >= window+slack }

func (b *scoredBars) trim() {
	b.bars = dropFirst(b.bars, slack)
	b.returns = dropFirst(b.returns, slack)
	b.history = dropFirst(b.history, slack)
	for t := range b.strengths {
		b.strengths[t] = dropFirst(b.strengths[t], slack)
	}
}

// update computes the features and scores of the newest bar.
func (b *scoredBars) update() {
	n := len(b.bars)
	now := b.bars[n-1]
	b.before = b.state
	var previous *marketdata.Bar
	logReturn := 0.0
	if n > 1 {
		previous = &b.bars[n-2]
		logReturn = math.Log(now.Close / previous.Close)
	}
	b.state.add(previous, now)
	b.returns = append(b.returns, logReturn)
	b.last = b.state.features(b.bars, b.returns, b.seen)

	r := reading{atr: b.last.ATR14, belowMean: now.Close < b.last.EMA26, scored: b.last.ready && b.last.hasMovement}
	for i, t := range technicals {
		strength := math.NaN()
		if r.scored {
			r.scores[i] = t.score(&b.last)
			strength = math.Abs(r.scores[i])
		}
		b.strengths[i] = append(b.strengths[i], strength)
	}
	if previous != nil && b.history[n-2].atr > 0 && !b.jumps {
		if jump := math.Abs(now.Open-previous.Close) / b.history[n-2].atr; jump > maxJump {
			r.jump = jump
		}
	}
	if n > 1 {
		r.usable, r.jumped = b.history[n-2].usable, b.history[n-2].jumped
	}
	if !now.Flat {
		r.usable++
	}
	if r.jump > 0 {
		r.jumped++
	}
	b.history = append(b.history, r)
}

// outside returns the reading of the bar before the window, the zero reading if there is none.
func (b *scoredBars) outside() (r reading) {
	if n := len(b.bars); n > window {
		r = b.history[n-window-1]
	}
	return r
}

// scoredFrom returns the index of the oldest bar whose score may count. Bars of the
// series' own warm-up have no score.
func (b *scoredBars) scoredFrom() int { return max(0, len(b.bars)-(window-warmUp)) }

// usable counts the bars of the window that do not fill gaps.
func (b *scoredBars) usable() int {
	if len(b.bars) == 0 {
		return 0
	}
	return b.history[len(b.history)-1].usable - b.outside().usable
}

// jumped returns an error if a bar of the window opens too far from the close before.
func (b *scoredBars) jumped() error {
	if n := len(b.history); n == 0 || b.history[n-1].jumped == b.outside().jumped {
		return nil
	}
	for i := max(0, len(b.bars)-window); i < len(b.bars); i++ {
		if jump := b.history[i].jump; jump > 0 {
			cause := &JumpError{b.bars[i].OpenTime, jump}
			return &signal.RunError{Code: signal.DataUnavailable, Cause: cause,
				Message: cause.Error() + ", which is a split or a fault of the source"}
		}
	}
	return nil
}

// barTime returns the time from one bar to the next inside a session, in milliseconds by the
// clock. In a compressed market bars are shorter than their timeframe.
func (b *scoredBars) barTime() int64 {
	longest := int64(1)
	for _, x := range b.bars[max(0, len(b.bars)-bandLength):] {
		longest = max(longest, x.CloseTime-x.OpenTime)
	}
	return min(longest, b.tf.Duration().Milliseconds())
}

// newsWindow returns the maximum age of a message in milliseconds by the clock.
func (b *scoredBars) newsWindow() int64 {
	w, full := newsWindow(b.tf)*time.Hour.Milliseconds(), b.tf.Duration().Milliseconds()
	return max(1, int64(float64(w)*float64(b.barTime())/float64(full)))
}

// dropFirst removes the first n elements of xs in place.
func dropFirst[T any](xs []T, n int) []T {
	return xs[:copy(xs, xs[min(n, len(xs)):])]
}
