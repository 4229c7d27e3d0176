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

// TestRoundsConcernEachBarOnce follows a schedule whose assets have bars of different
// lengths: each close of a slower one must fall into exactly one round.
func TestRoundsConcernEachBarOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tf              Timeframe
		fastest, slower int64
	}{{M1, 60, 1}, {M5, 60, 1}, {M5, 60, 7}, {M5, 3600, 1}, {H1, 60, 1}, {M1, 600, 60}, {D1, 3600, 60}} {
		s := Schedule{Timeframe: c.tf}
		begin := time.UnixMilli(1_795_253_400_123)
		s.NextRunAt = s.FirstRun(begin, c.fastest)
		slow := c.tf.Duration() / time.Duration(c.slower)
		rounds := 0
		for s.NextRunAt.Sub(begin) < 20*slow {
			if !s.Concerns(s.NextRunAt, c.fastest, c.fastest) {
				t.Fatalf("%+v: a round omits the fastest asset", c)
			}
			if s.Concerns(s.NextRunAt, c.slower, c.fastest) {
				rounds++
			}
			s.NextRunAt = s.RunAfter(s.NextRunAt, c.fastest)
		}
		minRounds, maxRounds := 19, 21
		if c.tf.Duration()/time.Duration(c.fastest) < minRoundGap {
			minRounds, maxRounds = 17, 26 // two rounds may lie more than a bar apart
		}
		if rounds < minRounds || rounds > maxRounds {
			t.Errorf("%+v: %d rounds for 20 bars", c, rounds)
		}
	}
	late := Schedule{Timeframe: M5, NextRunAt: time.UnixMilli(1_795_253_400_000)}
	if now := late.NextRunAt.Add(time.Hour); !late.Concerns(now, 1, 60) {
		t.Error("missed bars are not included")
	}
}

func TestSchedulesCountTheirSignals(t *testing.T) {
	t.Parallel()
	s := Schedule{Agent: "trading", Strategy: "momentum", Timeframe: H1, Risk: LowRisk}
	for name, c := range map[string]struct {
		x    Signal
		want bool
	}{
		"its own":           {Signal{Agent: "trading", Strategy: "momentum", Timeframe: H1, Risk: LowRisk}, true},
		"another agent":     {Signal{Agent: "weather", Strategy: "momentum", Timeframe: H1, Risk: LowRisk}, false},
		"another strategy":  {Signal{Agent: "trading", Strategy: "breakout", Timeframe: H1, Risk: LowRisk}, false},
		"another timeframe": {Signal{Agent: "trading", Strategy: "momentum", Timeframe: M5, Risk: LowRisk}, false},
		"another risk":      {Signal{Agent: "trading", Strategy: "momentum", Timeframe: H1, Risk: HighRisk}, false},
		"daily weather": {
			Signal{Agent: "trading", Strategy: "momentum", Timeframe: D1, Risk: LowRisk, Weather: &Outlook{}}, true,
		},
		"weather at another risk": {
			Signal{Agent: "trading", Strategy: "momentum", Timeframe: D1, Risk: MediumRisk, Weather: &Outlook{}}, false,
		},
	} {
		if got := s.Makes(&c.x); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFastestAssetOfASchedule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s     Schedule
		want  int64
		asked int
	}{
		"bars":    {Schedule{Assets: []string{"A", "B", "C"}}, 60, 3},
		"minutes": {Schedule{Assets: []string{"A", "B", "C"}, Every: time.Minute}, 1, 0},
		"none":    {Schedule{}, 1, 0},
	} {
		asked := 0
		got := c.s.Fastest(func(asset string) int64 {
			asked++
			return map[string]int64{"A": 1, "B": 60, "C": 0}[asset]
		})
		if got != c.want || asked != c.asked {
			t.Errorf("%s: speed %d with %d calls, want %d with %d", name, got, asked, c.want, c.asked)
		}
	}
}

// TestRoundsAscend checks the distance between consecutive rounds.
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
					t.Fatalf("%s at %d: consecutive rounds are %v apart", tf, speed, gap)
				}
				s.NextRunAt = next
			}
		}
	}
}
