// Package binance reads prices of the Binance exchange: bars by REST, trades and closed 1m bars by
// WebSocket. It needs no key.
//
// Data is decoded and complete in form. The caller decides whether a price is plausible.
//
// Where to read: rest.go (bars), stream.go (the connection and subscriptions), decode.go (messages).
package binance
