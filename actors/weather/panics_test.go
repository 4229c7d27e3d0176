package weather

import (
	"context"
	"log/slog"
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

func (l *panickingLog) EachWeatherRecord(ctx context.Context, p int, after signal.Position, f func(*signal.Signal)) (signal.Position, error) {
	if l.reads++; l.reads == 1 {
		panic("at a read")
	}
	return l.fakeLog.EachWeatherRecord(ctx, p, after, f)
}

func TestSlopesAreFittedAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		// Its payload is missing: this one is passed over.
		log.entries[0] = []*signal.Signal{{ID: "sig_1", Metadata: []byte(`{"prior":0.4}`)}}
		s := newSlopes(Options{Records: &panickingLog{fakeLog: log}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
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
