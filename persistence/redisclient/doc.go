// Package redisclient is the connection to Redis, or to a Redis Cluster, that all records
// share: addresses and TLS, the clients for commands and for blocking reads, the clock,
// readiness, waits for replicas, raw replies, and the names of all keys.
//
// The client never sends a command again: after a lost reply it is unknown whether the command
// took effect, so each caller decides. Execute reports every failed command of a pipeline.
// Unavailable makes the errors of a Redis that is unreachable or refuses a command, and Refusal
// returns the reason.
package redisclient
