package weather

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// panickingLog panics at its first read.
type panickingLog struct {
	*fakeLog
	reads int
}

func (l *panickingLog) EachWeatherEntry(ctx context.Context, p int, after signal.Position,
	f func(*signal.WeatherEntry)) (signal.Position, error) {
	if l.reads++; l.reads == 1 {
		panic("at a read")
	}
	return l.fakeLog.EachWeatherEntry(ctx, p, after, f)
}

func TestSlopesAreFittedAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlopes(Options{Records: &panickingLog{fakeLog: &fakeLog{}}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		go s.run(ctx)
		defer cancel()
		select {
		case <-s.ready:
		case <-time.After(time.Hour):
			t.Error("nothing is fitted after a panic")
		}
	})
}

// panickingSource panics when it is asked for the newest run.
type panickingSource struct {
	*fakeSource
	broken atomic.Bool
}

func (s *panickingSource) Newest(now, known time.Time) time.Time {
	if s.broken.Swap(false) {
		panic("at a run")
	}
	return s.fakeSource.Newest(now, known)
}

func TestOutlooksAreKeptUpToDateAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &panickingSource{fakeSource: newSource()}
		s := New(source, Options{})
		run(t, s)
		if _, err := s.Outlook(t.Context(), gas); err != nil {
			t.Fatal(err)
		}
		source.broken.Store(true)
		time.Sleep(5 * time.Hour)
		if r, err := s.Outlook(t.Context(), gas); source.broken.Load() || err != nil ||
			time.Since(r.Run) > time.Hour+time.Minute {
			t.Errorf("the forecast is of %v, %v", r.Run, err)
		}
	})
}

// panickingForecast panics at the first forecast.
type panickingForecast struct {
	*fakeSource
	asked atomic.Int64
}

func (s *panickingForecast) Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time,
	error) {
	if s.asked.Add(1) == 1 {
		panic("at a forecast")
	}
	return s.fakeSource.Forecast(ctx, at, now)
}

func TestPanickingOutlookIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(&panickingForecast{fakeSource: newSource()},
			Options{OnForecast: func(Question) { panic("at the news of it") }})
		if _, err := s.Outlook(t.Context(), gas); err == nil {
			t.Error("an outlook without a forecast is given")
		}
		time.Sleep(2 * retryPause)
		if _, err := s.Outlook(t.Context(), gas); err != nil {
			t.Errorf("the next one: %v", err)
		}
	})
}
