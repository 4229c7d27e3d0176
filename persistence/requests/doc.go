// Package requests keeps what is known of requests: the replies to those with an
// Idempotency-Key, so that the same request again gets the same answer, and the token
// buckets of callers.
package requests
