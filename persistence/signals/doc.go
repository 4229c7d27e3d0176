// Package signals reads signals back from the logs: one by its identifier, those of a
// partition in one pass, those that are open, and what came of those that were closed.
// It also has the runs whose end is due. All of it is written by package eventlog.
package signals
