// Package audit recomputes stored signals from stored bars, by the functions of live runs, and
// names those that differ. Package backtest compares a single signal; this package reads what
// that takes, and counts.
package audit
