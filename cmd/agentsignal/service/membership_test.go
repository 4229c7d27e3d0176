package service

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// TestANodeWaitsForKilledOnesOnly: it enters when the announcement of a killed one expires, and is
// refused as soon as a live one renews its own.
func TestANodeWaitsForKilledOnesOnly(t *testing.T) {
	const lease, renewal = 5 * time.Second, 300 * time.Millisecond
	conflict := func(node string, until time.Duration) error {
		return &cluster.Refusal{Node: node, Until: until.Milliseconds(),
			Err: &signal.Error{Kind: signal.KindConflict, Message: "refused by " + node}}
	}
	for name, c := range map[string]struct {
		announce func(now time.Duration) error
		entered  bool
		within   time.Duration
		why      string
	}{
		"no other node": {func(time.Duration) error { return nil }, true, 0, ""},
		"a killed node": {func(now time.Duration) error {
			if now < lease {
				return conflict("a", lease)
			}
			return nil
		}, true, lease + enterEvery, ""},
		"a live node": {func(now time.Duration) error {
			return conflict("a", now.Truncate(renewal)+lease)
		}, false, renewal + enterEvery, "refused by a"},
		"a live node behind a killed one": {func(now time.Duration) error {
			if now < time.Second {
				return conflict("a", time.Second)
			}
			return conflict("b", now.Truncate(renewal)+lease)
		}, false, time.Second + renewal + 2*enterEvery, "refused by b"},
		"two killed nodes": {func(now time.Duration) error {
			switch {
			case now < time.Second:
				return conflict("a", time.Second)
			case now < 2*time.Second:
				return conflict("b", 2*time.Second)
			}
			return nil
		}, true, 2*time.Second + enterEvery, ""},
		"Redis is not reached for a while": {func(now time.Duration) error {
			if now < 10*time.Second {
				return signal.Unavailable(errors.New("down"))
			}
			return nil
		}, true, 10*time.Second + installEvery, ""},
		"another conflict": {func(time.Duration) error {
			return &signal.Error{Kind: signal.KindConflict, Message: "unfit server"}
		}, false, 0, "unfit server"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				entered, err := awaitEntry(t.Context(), slog.New(slog.DiscardHandler),
					func(context.Context) error { return c.announce(time.Since(began)) })
				why := ""
				if err != nil {
					why = err.Error()
				}
				if took := time.Since(began); entered != c.entered || why != c.why || took > c.within {
					t.Errorf("entered %v after %s with %v; want %v within %s, %q", entered, took, err, c.entered, c.within, c.why)
				}
			})
		})
	}
}

func TestWaitingToEnterEndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		entered, err := awaitEntry(ctx, slog.New(slog.DiscardHandler), func(context.Context) error {
			return &cluster.Refusal{Node: "a", Err: &signal.Error{Kind: signal.KindConflict}}
		})
		if entered || err != nil {
			t.Errorf("entered %v, %v", entered, err)
		}
	})
}
