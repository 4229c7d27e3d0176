// Package strategy turns closed bars and news into signals: indicators, scores,
// price levels, a calibrated probability, and the rules by which a signal ends.
// Values go in and values come out: there is no clock, no random source, no I/O
// and no logging here. The same functions serve a live run, a backtest and the
// watch over open signals, so that they cannot disagree.
//
// # The way of a signal
//
// A Series takes the closed bars of one asset and timeframe, one by one. Each
// Append updates the indicators and the scores of all strategies. Assess says
// what a strategy thinks of the last bar: a direction, and the probability that
// the signal closes with a profit. Levels and Metadata complete it. ExitOnTick
// and ExitOnBar decide when it ends.
//
// # No look-ahead
//
// What Append computes for a bar depends on that bar and those before it. The
// past of the asset enters the probability only by outcomes whose whole horizon
// has passed.
//
// # Where a series begins
//
// EMA and Wilder's averages remember their first value. A series therefore
// begins at its first known bar and everything later follows incrementally; a
// bar costs the same however long the series is. The alternative, a fresh pass
// over exactly the last 1,000 bars at each close, would be independent of the
// beginning, but would let the outcome of a past entry change from bar to bar,
// and costs a thousand times as much.
//
// The choice is made so that the beginning does not show. Of the last 1,000
// bars the first 120 are warm-up; scores, past outcomes and ranks are taken from
// the other 880, whatever lies before. The seed of EMA(26) fades by 25/27 a bar
// and that of Wilder's 14-bar averages by 13/14. A process keeps 1,500 bars in
// its store, so where it restarts, the oldest bar that counts is 620 bars away
// from the seed, where less than 1e-17 of it is left. Series that begin at
// different bars thus agree in every rounded field once each has seen 1,500
// bars, and nearly so from 1,000 on; a test holds this. The windows (SMA, sigma,
// Donchian) are summed afresh at each bar, so that no rounding error travels
// with the series and a market that stands still has a deviation of exactly 0.
//
// # Concurrency
//
// A Series may be used from several goroutines; it locks itself. An Assessment
// is a value, but copies share their slices and maps: nobody changes them.
package strategy
