package service

import (
	"context"
	"errors"
	"testing"
)

// Gauges keep their values through short outages of Redis, and lose them once in a long one.
func TestGaugesOfTheDataEndWithoutRedis(t *testing.T) {
	t.Parallel()
	var err error
	resets := 0
	g := &dataGauges{read: func(context.Context) error { return err }, reset: func() { resets++ }}
	for _, c := range []struct {
		failures, want int
	}{{maxFailedUpdates - 1, 0}, {maxFailedUpdates - 1, 0}, {maxFailedUpdates, 1}, {3 * maxFailedUpdates, 2}} {
		err = errors.New("away")
		for range c.failures {
			if g.update(t.Context()) == nil {
				t.Error("an update that failed reports no error")
			}
		}
		if resets != c.want {
			t.Errorf("after %d failures the values were removed %d times, want %d", c.failures, resets, c.want)
		}
		err = nil
		if err := g.update(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
