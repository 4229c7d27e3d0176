// Package market keeps the prices of the service: the lease and the checkpoint of the market's
// feeder, the streams of incoming and outgoing prices, and the records of bars, assets, news and
// weather. A write of the feeder names the epoch of its lease and is refused with CodeNotOwner once
// another node feeds the market.
//
// One read takes at most readMax (2,000) ticks, bars or items of news, so that a reader that catches up
// needs little memory. Rounds of ticks are read whole: the last one may go beyond that, by less than the 1,000
// ticks that the feeder puts into one. A read asks for as many rounds as had readMax ticks in the read before, and
// for two at least.
package market
