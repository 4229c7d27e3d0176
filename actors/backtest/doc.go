// Package backtest measures how good signals are. It replays a strategy over bars with
// the functions of a live run (package strategy), computes statistics of closed signals,
// compares their confidence with the outcomes, and recomputes stored signals. It is as
// pure as package strategy: no clock, no random source, and no input or output. Package barfile
// reads the bars of files.
//
// # Before and after costs
//
// Figures about forecasts (hit rate, mean and median R, excursions, Brier score and
// reliability) are gross of costs, as the confidence of a signal is. Figures about money
// (expectancy, profit factor, drawdown, the equity curve) are net of the cost of entry
// and exit.
package backtest
