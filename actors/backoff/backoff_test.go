package backoff

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleUpToTheLimit(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := []struct {
		name string
		b    Backoff
		want []time.Duration
	}{
		{"default", Backoff{}, []time.Duration{250 * ms, 500 * ms, time.Second, 2 * time.Second, 4 * time.Second,
			DefaultMax, DefaultMax}},
		{"own limits", Backoff{Min: 10 * ms, Max: 25 * ms}, []time.Duration{10 * ms, 20 * ms, 25 * ms, 25 * ms}},
		{"no room", Backoff{Min: time.Minute}, []time.Duration{DefaultMax, DefaultMax}},
	}
	for _, test := range tests {
		for _, round := range []string{"at first", "after a success"} {
			var got []time.Duration
			for range test.want {
				got = append(got, test.b.Next())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s, %s: got %v, want %v", test.name, round, got, test.want)
			}
			test.b.Reset()
		}
	}
}

// TestPausesDoNotOverflow fails more often than a duration can be doubled.
func TestPausesDoNotOverflow(t *testing.T) {
	t.Parallel()
	b := Backoff{Min: 1, Max: math.MaxInt64}
	for last := time.Duration(0); last < b.Max; {
		next := b.Next()
		if next <= last {
			t.Fatalf("%d comes after %d", next, last)
		}
		last = next
	}
	if got := b.Next(); got != b.Max {
		t.Errorf("the pause after the longest is %d", got)
	}
}

func TestJitterSpreadsPausesByHalf(t *testing.T) {
	t.Parallel()
	b := Backoff{Min: time.Second, Max: time.Second, Jitter: true}
	var all []time.Duration
	for range 1000 {
		all = append(all, b.Next())
	}
	shortest, longest := slices.Min(all), slices.Max(all)
	if shortest < 500*time.Millisecond || shortest > 600*time.Millisecond ||
		longest < 1400*time.Millisecond || longest >= 1500*time.Millisecond {
		t.Errorf("pauses last %v to %v", shortest, longest)
	}
}

func TestWaitsEndWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start, b := time.Now(), Backoff{}
		for i, want := range []bool{true, true, false, false} { // 250 ms, 500 ms, then a second
			if got := b.Wait(ctx); got != want {
				t.Errorf("wait %d reports %v", i+1, got)
			}
		}
		if passed := time.Since(start); passed != time.Second {
			t.Errorf("the waits took %v", passed)
		}
		if Sleep(ctx, 0) || !Sleep(t.Context(), 0) || !Sleep(t.Context(), -time.Second) {
			t.Error("a sleep of no time does not report whether its context has ended")
		}
	})
}

func TestTheFirstFailureInARowIsAWarning(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var b Backoff
	for _, want := range []string{"WARN", "DEBUG", "DEBUG", "WARN"} {
		if want == "WARN" {
			b.Reset()
		}
		out.Reset()
		b.Log(log, "it fails", "at", 1)
		if !strings.Contains(out.String(), "level="+want+` msg="it fails" at=1`) {
			t.Errorf("logged %q, want %s", out.String(), want)
		}
		b.Next()
	}
}
