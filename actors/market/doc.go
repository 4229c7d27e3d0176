// Package market provides ticks, closed bars and news of every asset, the same on every node.
//
// All prices pass through Redis. One node in the cluster is the feeder: it holds a lease, runs the
// sources, reads the two streams of prices from outside, builds bars, and stores them in records
// and in a stream of closed bars, by writes that are refused once another node is the feeder. Every
// node has a Market, which reads the ticks and the closed bars and keeps, for each asset that was
// asked for, a snapshot that costs no I/O to read.
//
//	source ──┐                           ┌─> records ─────────┐ (first use)
//	feeds  ──┼─> feeder ── one script ───┤                    ├─> asset actor ─> Snapshot
//	streams ─┘     └─────> stream of ticks └> stream of closed ┘
//	                             └───────────────────────────────┘
//
// A source is the simulated market, or a feed that asks real sources for one asset. A feed starts
// when its asset is first asked for. It uses the first source in market.source that has the asset,
// the next one while that fails, and the first again once it has worked for ten minutes.
//
// What the package promises:
//
//   - A Snapshot is immutable. Its bars are closed, ascending, checked, and 1,500 at most.
//   - Nothing is missed between the records and the stream of closed bars: entries are counted, and
//     a reader that misses one reads the records again.
//   - An asset has one source at a time. The feeder's own ticks have a stream of their own, {market}:ticks,
//     which an ACL of Redis can close to all but the service. An entry of market:ticks for an asset of
//     another source, or in the name of a source, is counted as skipped and is in no bar and no snapshot.
//   - Every tick and bar of a real source is checked, and counted if it cannot be true.
//   - Trades while a real source was out of reach are in the records before the next tick of the asset is
//     written. That tick carries the time since which ticks are missing, so that levels reached meanwhile
//     are found in the bars. The minute in which the connection came back is corrected once it is closed.
//   - A real asset has prices in its sessions only. Outside of them Series returns MARKET_CLOSED.
//   - A bar may be replaced by a later copy. Bars of 5m, 1h and 1d that a source gives win over
//     those built from finer ones.
//   - The simulated market follows one path for one seed, start and clock, whichever node feeds it
//     and however often that changes, unless a gap is longer than a thousand of its minutes; a
//     longer gap is filled in coarser steps.
//   - A node that catches up with the streams of ticks has some 2,000 of them at a time, however many one entry has.
//   - Ticks are delivered at most once. A reader that must not miss one reads the streams of ticks.
//
// Where to read: market.go (questions), loader.go (which take up assets), assetlist.go and names.go (which assets
// exist), alerting.go (adding alerts), asset.go (the actors), assetprices.go and assetalerts.go (what they keep),
// tickreader.go and barreader.go (the streams), recent.go (ticks), news.go (news). Subpackages: assets
// (known assets and the spelling of names), prices (arithmetic of ticks and bars), alerts (levels
// and expiries), sessions (when assets are traded), source (real sources), simulated (the simulated
// market) and feeder (runs the sources on one node and stores their prices).
package market
