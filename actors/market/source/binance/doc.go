// Package binance reads prices of the exchange of that name: bars by REST, trades and
// closed bars of 1m by WebSocket. It needs no key.
//
// What is returned is decoded and complete in form, not judged: whether a price can be
// true is for the caller to decide.
//
// Where to read: rest.go (bars), stream.go (the connection and what is subscribed),
// decode.go (what messages say).
package binance
