package signal

import (
	"testing"
	"time"
)

func TestNextRunOfASchedule(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, "2026-11-21T"+s+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, c := range map[string]struct {
		tf          Timeframe
		every       time.Duration
		speed       int64
		next, now   string
		first, then string
	}{
		"minutes":               {H1, 5 * time.Minute, 60, "09:30:00", "09:30:00.120", "09:30:00.120", "09:35:00"},
		"minutes, late":         {H1, 5 * time.Minute, 1, "09:30:00", "09:47:10", "09:47:10", "09:50:00"},
		"minutes, just in time": {H1, 5 * time.Minute, 1, "09:30:00", "09:35:00", "09:35:00", "09:40:00"},
		"clock went back":       {H1, 5 * time.Minute, 1, "09:30:00", "09:29:00", "09:29:00", "09:35:00"},
		"bars":                  {H1, 0, 1, "09:00:02", "09:00:02.010", "10:00:02", "10:00:02"},
		"bars, before margin":   {H1, 0, 1, "09:00:02", "09:00:01", "09:00:02", "09:00:02"},
		"days":                  {D1, 0, 1, "00:00:02", "09:00:00", "24h", "24h"},
		"fast bars":             {M5, 0, 60, "09:30:00.5", "09:30:00.510", "09:30:05.5", "09:30:05.5"},
		"very fast bars":        {M1, 0, 600, "09:30:00", "09:30:00", "09:30:01.010", "09:30:01.010"},
	} {
		s := Schedule{Timeframe: c.tf, Every: c.every, NextRunAt: at(c.next)}
		want := func(text string) time.Time {
			if text == "24h" {
				return time.Date(2026, 11, 22, 0, 0, 2, 0, time.UTC)
			}
			return at(text)
		}
		if got := s.FirstRun(at(c.now), c.speed); !got.Equal(want(c.first)) {
			t.Errorf("%s: first at %v, want %s", name, got, c.first)
		}
		if got := s.RunAfter(at(c.now), c.speed); !got.Equal(want(c.then)) {
			t.Errorf("%s: then at %v, want %s", name, got, c.then)
		}
	}
}

// TestRoundsAscend walks along many rounds: each lies behind the one before, as far as
// it should.
func TestRoundsAscend(t *testing.T) {
	t.Parallel()
	for _, tf := range Timeframes {
		for _, speed := range []int64{1, 7, 60, 1000, 100_000} {
			s := Schedule{Timeframe: tf}
			now := time.UnixMilli(1_795_253_400_123)
			s.NextRunAt = s.FirstRun(now, speed)
			for range 100 {
				next := s.RunAfter(s.NextRunAt, speed)
				gap := next.Sub(s.NextRunAt)
				length := max(tf.Duration()/time.Duration(speed), time.Second)
				if gap < length-2*time.Millisecond || gap > 2*length+2*time.Millisecond {
					t.Fatalf("%s at %d: a round comes %v after the one before", tf, speed, gap)
				}
				s.NextRunAt = next
			}
		}
	}
}
