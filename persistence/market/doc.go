// Package market keeps what the service knows of prices: the lease and the checkpoint of
// the market's feeder, the streams through which prices come in and go out, and the
// records of bars, assets and news. A write of the feeder names the epoch of its lease and
// is refused with CodeNotOwner once another node feeds the market.
package market
