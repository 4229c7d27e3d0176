// Package audit recomputes stored signals from stored bars, by the functions of live runs, and
// names those that differ. What agents of accounts have made cannot be recomputed; how it was
// re-scored and has ended can. Package backtest compares a single signal; this package reads what
// that takes, and counts.
package audit
