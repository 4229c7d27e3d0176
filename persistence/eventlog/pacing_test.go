package eventlog

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPacing(t *testing.T) {
	t.Parallel()
	const shortest, longest = time.Millisecond, 4 * time.Millisecond
	for name, c := range map[string]struct {
		before time.Duration
		events int
		shown  int
		took   time.Duration
		want   time.Duration
	}{
		"few events":                  {shortest, 1, 0, 0, 2 * shortest},
		"few events, longest pause":   {longest, 1, 0, 0, longest},
		"rare events":                 {longest, 1, 0, longest, shortest},
		"a good number of events":     {2 * shortest, fewEvents, 0, 0, 2 * shortest},
		"few events, shown often":     {longest, 1, manyShown, 0, shortest},
		"some events, shown often":    {longest, fewEvents, manyShown, 0, shortest},
		"few events, shown less":      {longest, 1, manyShown - 1, 0, longest},
		"many events":                 {longest, manyEvents, 0, 0, longest / 2},
		"many events, shortest pause": {shortest, manyEvents, 0, 0, shortest},
	} {
		p := newPacing(shortest, longest)
		p.pause = c.before
		if p.adapt(c.events, c.shown, c.took); p.pause != c.want {
			t.Errorf("%s: pause %v, want %v", name, p.pause, c.want)
		}
	}
}

// TestPauseEndsForWaiters: a caller that waits for an event is not delayed by a long pause.
func TestPauseEndsForWaiters(t *testing.T) {
	t.Parallel()
	const shortest, longest = time.Millisecond, time.Minute
	for name, c := range map[string]struct {
		wakes bool
		want  time.Duration
	}{
		"without callers":        {false, longest},
		"a caller waits already": {true, shortest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacing(shortest, longest)
				p.pause = longest
				if c.wakes {
					p.wake()
					p.wake() // does not block
				}
				start := time.Now()
				p.wait(t.Context(), start)
				if took := time.Since(start); took != c.want {
					t.Errorf("the pause took %v, want %v", took, c.want)
				}
				time.Sleep(time.Hour) // as a read that waits
				since := time.Now()
				p.wait(t.Context(), start)
				if took := time.Since(since); took != 0 {
					t.Errorf("a pause of %v after a read that took an hour", took)
				}
			})
		})
	}
}
