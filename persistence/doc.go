// Package persistence keeps what the service knows in Redis.
package persistence
