// Package market answers what assets cost: ticks, closed bars and news of every asset, the
// same on every node.
//
// All prices pass through Redis. One node in the cluster is the feeder: it holds
// a lease, runs its sources, reads the two streams through which anyone may
// give prices, builds bars, and stores them in records and in a stream of closed
// bars, by writes that are refused once another node is the feeder. Every node
// has a Market, which reads the ticks and the closed bars and keeps, for each
// asset that was asked for, a snapshot that costs no I/O to read.
//
//	source ──┐                           ┌─> records ─────────┐ (first use)
//	feeds  ──┼─> feeder ── one script ───┤                    ├─> asset actor ─> Snapshot
//	streams ─┘     └─────> stream of ticks └> stream of closed ┘
//	                             └───────────────────────────────┘
//
// A source is the simulated market, or a feed that asks real sources for one asset, which is
// taken up when it is first asked for: by the first source in market.source that has it,
// by the next one while that fails, and by the first again once it has worked for ten
// minutes.
//
// What it promises:
//
//   - A Snapshot is immutable. Its bars are closed, ascending, checked, and 1,500
//     at most.
//   - Between the records and the stream of closed bars nothing is missed: entries
//     are counted, and a reader that misses one reads the records again.
//   - An asset has one source at a time. Ticks of our own lie in a stream of their own,
//     {market}:ticks, which an ACL of Redis can close to all but the service; what
//     anybody writes to market:ticks of an asset that another source gives, or in the
//     name of a source, is counted as skipped, and is in no bar and no snapshot.
//   - Of a real source nothing counts that cannot be true: each tick and bar is checked,
//     and counted if it is refused.
//   - What was traded while a real source was out of reach is in the records before the
//     next tick of the asset is written. That tick says since when ticks are missing, and
//     levels that were reached meanwhile are found in the bars. The minute in which the
//     connection came back is made up for once it is closed.
//   - A real asset has prices in its sessions only: else Series says MARKET_CLOSED.
//   - A bar may be replaced by a later copy. Bars of 5m, 1h and 1d that a source
//     gives win over those built from finer ones.
//   - The simulated market follows one path for one seed, start and clock, whoever
//     feeds it and however often the feeder changes, as long as no gap is longer
//     than a thousand of its minutes; a longer gap is made up in coarser steps.
//   - Ticks are not promised: what is read here is at most once. A reader that must not
//     miss one reads the streams of ticks.
//
// Where to read: market.go (questions), watch.go and catchup.go (asset actors), alert.go
// (how an alert is added), reader.go and tape.go (the streams), newsbook.go (news), names.go
// and listed.go (which assets there are), past.go (bars of the past). Below: assets (known
// assets and how names are spelt), prices (the arithmetic of ticks and bars), alerts (levels and expiries), sessions (when
// assets are traded), source (real sources), simulated (the simulated market) and feeder
// (what runs these on one node and stores what they give).
package market
