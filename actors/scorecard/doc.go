// Package scorecard computes the statistics of an account's closed signals, as defined by
// package backtest, over all of them and by group.
//
// The source is the signal log. An account's log is read from its beginning at the first
// question and continued at each further one, so that an answer includes every signal
// that was closed before the question and no signal is read twice. The accounts used last
// are kept in memory, at some 100 bytes per closed signal.
package scorecard
