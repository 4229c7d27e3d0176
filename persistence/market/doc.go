// Package market keeps the prices of the service: the lease and the checkpoint of the market's
// feeder, the streams of incoming and outgoing prices, and the records of bars, assets, news and
// weather. A write of the feeder names the epoch of its lease and is refused with CodeNotOwner once
// another node feeds the market.
package market
