package service

import (
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Package configs cannot import the client whose blocking reads redis.timeout must outlast.
func TestRedisTimeoutOutlastsBlockingReads(t *testing.T) {
	t.Parallel()
	c := configs.Default()
	for extra, valid := range map[time.Duration]bool{0: false, time.Millisecond: true} {
		c.Redis.Timeout = configs.Duration(redisclient.BlockTimeout + extra)
		err := c.Validate()
		if (err == nil) != valid || !valid && !strings.Contains(err.Error(), "more than "+redisclient.BlockTimeout.String()) {
			t.Errorf("%v: %v", c.Redis.Timeout, err)
		}
	}
}
