// Package limits counts requests against the rate limits.
//
// Each class and account, or address, has a token bucket in the store, shared by all
// processes, that holds the quota of the class and fills up within its period. A process
// leases tokens: while it has some, a request does not need the store. The first lease has
// one token; if it is used up within its second, the next has twice as many, up to a
// twentieth of the quota. Unused tokens are returned after a second.
//
// If the store fails, the process counts alone with the same quotas, from the last known
// state of the bucket, and tries the store again after a second.
package limits
