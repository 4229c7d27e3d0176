package agent

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestALateRunIsNotRecorded: an append that begins shortly before others give the run up could end after that.
func TestALateRunIsNotRecorded(t *testing.T) {
	for left, late := range map[time.Duration]bool{lateMargin - time.Second: true, lateMargin + time.Second: false} {
		var skew atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
		withBench(t, Options{Now: now}, func(t *testing.T, b *bench) {
			b.market.series = seriesFunc(func() (market.Snapshot, error) {
				time.Sleep(time.Second)
				skew.Store(int64(time.Until(b.log.all()[0].Due.At) - left))
				return history(), nil
			})
			_, err := b.run()
			if late && codeOf(err) != signal.Cancelled || !late && err != nil {
				t.Errorf("with %v left: %v", left, err)
			}
		})
	}
}
