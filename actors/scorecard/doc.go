// Package scorecard says how the closed signals of an account ended: the statistics of
// package backtest, over all of them and by group.
//
// The signal log is the source. It is read for an account when it first asks, and from
// there on when it asks again, so that an answer has every signal that was closed
// before the question, and no signal is read twice. What was read is kept: some 100
// bytes a closed signal, of the accounts that asked last.
package scorecard
