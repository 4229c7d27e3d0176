// Package lifecycle watches open signals until they close. The owner of a partition
// has an actor for each open signal of it, below a parent that starts them: first for
// those in Redis when the partition is taken over, then for each new one in the log.
//
//	event log ─> partition feed ─> signals ─> sig_…  <─ asset ─< ticks, bars
//	    ^                                      │
//	    └──────── signal.updated, signal.closed ┘
//
// What it promises:
//
//   - A signal closes once, by the rules of package strategy: the write is refused if the
//     signal is already closed, or if another node owns the partition.
//   - An actor has no state that Redis and the market do not have. A new owner requests
//     an alert from the signal's creation on, receives everything that has happened since,
//     and so closes the signal in the same way.
//   - The exit of a signal by its agent is in Redis as well. Every owner settles it in the same way: by the
//     first price after it, unless a price up to it has reached a level.
//   - A price wakes only the signals whose levels it reaches (package market keeps them
//     sorted), the close of a bar those of its timeframe.
//   - A weather signal is also re-scored when a forecast arrives, with at most one update
//     a bar. The forecast of its first confidence is stored with it, so that a restart
//     changes nothing.
//
// Where to read: node.go (shared by all partitions), signals.go (the parent), writes.go
// (how it appends changes), signal.go (the actor of a signal, and the payloads of its events).
package lifecycle
