package redistest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestSetClock: the clock of a server moves, and the end of keys with it, before and after a restart.
func TestSetClock(t *testing.T) {
	OwnClocks(t)
	s := NewDurable(t)
	c := s.Client()
	ctx := context.Background()
	near := func(what string, at time.Time, ahead time.Duration) {
		t.Helper()
		if off := time.Until(at) - ahead; off.Abs() > time.Minute { // a busy machine is no fault
			t.Errorf("%s: the clock is ahead by %s, want %s", what, time.Until(at), ahead)
		}
	}
	check := func(what string, ahead time.Duration) {
		t.Helper()
		now, err := c.Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		near(what, now, ahead)
		ms, err := c.Eval(ctx, `return redis.call('TIME')[1] .. '000'`, nil).Int64()
		if err != nil {
			t.Fatal(err)
		}
		near(what+", in a script", time.UnixMilli(ms), ahead)
	}
	check("at first", 0)
	if err := c.Set(ctx, "key", "value", 30*time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	s.SetClock(-time.Hour)
	check("set back", -time.Hour)
	if left := c.PTTL(ctx, "key").Val(); left < time.Hour {
		t.Errorf("the key expires within %s", left)
	}
	s.SetClock(time.Hour)
	check("set ahead", time.Hour)
	if err := c.Get(ctx, "key").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the key has not expired: %v", err)
	}
	s.Kill()
	s.Restart()
	check("restarted", time.Hour)
	s.SetClock(0)
	check("set right", 0)
}
