// Package request reads the requests of clients: the JSON object of a body and the
// parameters of a query. A read that finds a fault records it in [Faults] and goes on, so
// that one answer lists every fault of a request, each with its place.
//
// A value that is wrong, absent or null reads as its zero value. Unknown members and
// parameters are faults: what a client misspells is never ignored.
package request
