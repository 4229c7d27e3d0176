// Package catalogue lists the signals of an account: a projection of the signal log in
// memory, with exact totals for every combination of filters.
//
// A partition is built at its first use by one pass over its signal log, and then follows
// the node's tail. It is dropped after Options.Idle without a use. A query is answered only
// after the tail has reached the end that the event log had when the query arrived, so a client
// reads its own writes on any node.
//
// The listed confidence of an open signal is the current one. That of a closed signal is the
// initial one again: the last one before the end already reflects the outcome, so that
// selecting closed signals by it would select the winners.
//
// Agents and their strategies are numbered for each account, as its signals name them. A signal is content, found by its
// subject, if it has no entry price.
//
// A signal takes 48 bytes in a row and, in accounts of at least indexedRows signals,
// about 10 bytes in bitmaps. Rows are in the order of the log, which is the order of
// creation; pages go from the newest to the oldest.
//
// All methods may be called from any goroutine.
package catalogue
