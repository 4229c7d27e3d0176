// Package backtest says how good signals are. It replays a strategy over bars by the
// very functions of a live run (package strategy), counts how signals ended, compares
// their confidence with what came of them, and recomputes signals that are stored.
// Values go in and values come out, as in package strategy: no clock, no random source,
// no input or output but the reader that ReadCSV is given.
//
// # What counts before costs, and what after
//
// What is said of forecasts (hit rate, mean and median R, excursions, Brier score and
// reliability) is gross of costs, as the confidence of a signal is. What is said of
// money (expectancy, profit factor, drawdown, the equity curve) is net of the cost of
// entry and exit.
package backtest
