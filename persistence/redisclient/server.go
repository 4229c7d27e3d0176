package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// leastMajor is the oldest major version of Redis with the commands that this service uses.
const leastMajor = 7

// CheckServer returns KindConflict, "unfit_redis", if the server cannot keep what this service
// promises, whatever its settings are, or if it evicts keys. A server that
// refuses INFO, as managed stores may, passes.
func (c *Client) CheckServer(ctx context.Context) error {
	text, err := c.RDB.Info(ctx).Result()
	if reply := redis.Error(nil); errors.As(err, &reply) {
		return nil
	}
	if err != nil {
		return Failed(err, "ask for the server")
	}
	if reason := unfit(parseInfo(text)); reason != "" {
		return Refused("unfit_redis", reason)
	}
	return nil
}

// parseInfo returns the fields of a reply to INFO.
func parseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	return fields
}

// unfit returns why a server with these fields of INFO cannot be used, or an empty string.
func unfit(info map[string]string) string {
	const advice = "use Redis 7.0 or later, or Valkey"
	if version := info["dragonfly_version"]; version != "" {
		return fmt.Sprintf("this is Dragonfly %s, which has no append-only file: what a client was told would be lost "+
			"when it stops: %s", version, advice)
	}
	if strings.Contains(info["executable"], "keydb") {
		return "this is KeyDB, which is Redis 6: " + advice
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < leastMajor {
		return fmt.Sprintf("this is Redis %s: %s", version, advice)
	}
	// Without a limit of memory the policy has no effect.
	limit, policy := info["maxmemory"], info["maxmemory_policy"]
	if limit != "" && limit != "0" && policy != "" && policy != "noeviction" {
		return fmt.Sprintf("this Redis has maxmemory-policy %s, by which it removes what a client was told is kept: "+
			"set noeviction", policy)
	}
	return ""
}
