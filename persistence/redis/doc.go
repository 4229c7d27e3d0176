// Package redisclient is the connection to Redis, or to a cluster of it, that all
// records share: addresses and TLS, the clients for commands and for blocking reads,
// the clock, readiness, waits for replicas, raw replies, and the names of all keys.
//
// No command is sent twice by itself: after a lost reply it is unknown whether it took
// effect, so each caller decides. No command of a pipeline ends without its error
// (Execute). An unreachable Redis is KindUnavailable, as is one that refuses what it
// should do, for which Refusal has the reason (Unavailable).
package redisclient
