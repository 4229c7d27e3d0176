package redisclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Risks returns sentences on why a failure of the server may lose acknowledged changes.
// A server that refuses INFO, as managed stores may, has none.
func (c *Client) Risks(ctx context.Context) ([]string, error) {
	masters, err := c.Masters(ctx)
	if err != nil {
		return nil, Failed(err, "find the servers")
	}
	var found []string
	for _, master := range masters {
		text, err := master.Info(ctx).Result()
		if reply := redis.Error(nil); errors.As(err, &reply) {
			continue
		}
		if err != nil {
			return nil, Failed(err, "ask for the server")
		}
		for _, risk := range risks(parseInfo(text), c.WaitReplicas) {
			if !slices.Contains(found, risk) {
				found = append(found, risk)
			}
		}
	}
	return found, nil
}

// risks returns the risks of a server with these fields of INFO.
func risks(info map[string]string, waitReplicas int) []string {
	var found []string
	if replicas := info["connected_slaves"]; waitReplicas == 0 && replicas != "" && replicas != "0" {
		found = append(found, "Redis has replicas, but redis.wait_replicas is 0: a failover may lose changes that clients "+
			"were told are stored. Set redis.wait_replicas to 1.")
	}
	if info["aof_enabled"] == "0" {
		found = append(found, "Redis has no append-only file: its restart may lose changes that clients were told are "+
			"stored. Set appendonly yes in Redis.")
	}
	return found
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
