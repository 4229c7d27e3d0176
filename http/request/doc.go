// Package request reads what clients send to the API: the JSON object of a body and the
// parameters of a query. A read that finds a fault records it in [Faults] and goes on, so
// that one answer lists every fault of a request, each with its place.
//
// A value that is wrong, absent or null reads as its zero value. Members and parameters
// that were not asked for are faults, too: what a client misspells is never dropped.
package request
