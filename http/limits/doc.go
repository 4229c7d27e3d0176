// Package limits counts requests against the rate limits.
//
// Each class and account, or address, has a token bucket in the store, shared by
// all processes, that holds the class' quota and fills up within its period. A
// process leases tokens: while it has some, a request does not ask the
// store. The first request leases one; a process that uses up a lease within its
// second gets twice as many, up to a twentieth of the quota. Tokens not used within a second
// are given back.
//
// If the store fails, the process counts on its own with the same numbers, from
// what it last knew of the bucket, and asks the store again after a second.
package limits
