// Package strategy turns closed bars and news into signals: indicators, scores, price
// levels, the probability of a profit, and the rules by which a signal ends. Values go in
// and values come out: there is no clock, no random source, no I/O and no logging here.
// The same functions serve a live run, a backtest and the watch over open signals, so
// that they cannot disagree.
//
// # From bars to a signal
//
// A Series takes the closed bars of one asset and timeframe, one by one. Each Append
// updates the indicators and the scores of all strategies. Assess returns the opinion of
// a strategy on the last bar: a direction, and the probability that the signal closes
// with a profit. Evaluate adds levels and metadata. ExitOnTick and ExitOnBar decide when
// the signal ends.
//
// # No look-ahead
//
// What Append computes for a bar depends on that bar and those before it. Earlier entries
// count towards the probability only once their whole horizon has passed.
//
// # Where a series begins
//
// EMA and Wilder's averages depend on their first value. A series begins at its first
// known bar and is updated incrementally, so a bar costs the same however long the series
// is. The alternative, to compute the last 1,000 bars afresh at each close, would not
// depend on the first bar, but the outcome of an earlier entry would change from bar to
// bar, and it would cost a thousand times as much.
//
// The dependence on the first bar is negligible. Of the last 1,000 bars the first 120 are
// warm-up; scores, outcomes and ranks are taken from the other 880, whatever lies before.
// The weight of the seed of EMA(26) falls by a factor of 25/27 per bar, that of Wilder's
// 14-bar averages by 13/14. The store holds 1,500 bars, so after a restart the oldest bar
// that counts is 620 bars away from the seed, whose weight is then below 1e-17. Series
// that begin at different bars thus agree in every rounded field once each has seen 1,500
// bars and MaxOutcomes resolved entries, which the confidence counts beyond the window; a
// test checks this. The windows (SMA, sigma, Donchian) are computed from scratch at each
// bar, so that rounding errors do not accumulate and a market without movement has a
// deviation of exactly 0.
//
// # What the probability rests on
//
// The window of one asset is too short to separate strong scores from weak ones. A Pool counts
// the outcomes of all assets of a timeframe by strategy, risk level, direction and strength.
// An entry without an opinion is expected to close in profit as often as the window's break-even
// and the usual distance from it. Comparable entries change that, shrunk in steps: by strategy,
// by direction, by strength, and last those of the asset itself (confidence.go).
//
// Assets move together and lives overlap, so that many entries are worth few independent ones: how
// many is measured by how much their sums over blocks of time vary. Over the same blocks, walk
// forward, outcomes are regressed on what the blocks before let expect. The slope is how much of
// a difference of direction and strength an estimate keeps, and unless it is above 0 beyond chance,
// the reasoning claims neither an edge nor a loss (past.go). Sentiment and weather, which have no
// pool, claim none. Break-even and expected R come from the mean gain and loss in the window.
//
// # Agents of an account
//
// Such agents choose their levels and expiry. BaseAt replays entries at those (replay.go). The skill of a
// strategy is how much more often its signals close in profit than that, estimated from its closed ones
// (skill.go). Claims of agents do not enter. A signal that its agent closed early counts as its
// probability of a profit at that time, so that there is no way to leave that earns skill.
//
// # Concurrency
//
// A Series may be used from several goroutines; it locks itself. An Assessment is a
// value, but copies share their slices and maps, which are read-only.
package strategy
