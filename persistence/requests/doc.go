// Package requests keeps the replies to requests with an Idempotency-Key, so that a repeated
// request gets the same reply, and the token buckets of callers.
package requests
