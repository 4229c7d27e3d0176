// Package lifecycle watches open signals until they close. The owner of a partition
// has an actor for each open signal of it, below a parent that starts them: from what
// Redis holds when the partition is taken over, then as events tell of new ones.
//
//	event log ─> partition feed ─> signals ─> sig_…  <─ asset ─< ticks, bars
//	    ^                                      │
//	    └──────── signal.updated, signal.closed ┘
//
// What it promises:
//
//   - A signal closes once, and by the rules of package strategy: the write is refused
//     if the signal is not open any more, or if another node owns the partition.
//   - An actor keeps nothing that Redis and the market do not have. Whoever takes a
//     signal over asks for an alert from its creation on, is told what has happened
//     since, and so comes to the same end.
//   - A price wakes only the signals whose levels it reaches (package market keeps them
//     sorted), the close of a bar those of its timeframe.
//   - A weather signal is re-scored when a forecast arrives, too, with at most one update
//     a bar. What its first confidence rests on is stored with it, so that a restart
//     changes nothing.
//
// Where to read: node.go (what partitions share), signals.go (the parent), watcher.go
// (the actor of a signal), payload.go (what events say).
package lifecycle
