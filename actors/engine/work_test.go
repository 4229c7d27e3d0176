package engine

import (
	"testing"
	"testing/synctest"
)

func TestGoroutinesAreUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		idle := func(want int32) {
			t.Helper()
			synctest.Wait()
			wantCount(t, "goroutines waiting for work", w.idle.Load(), want)
		}
		begin := func(n int) (end func()) {
			release := make(chan struct{})
			for range n {
				w.run(func() { <-release })
			}
			return func() { close(release) }
		}
		first := begin(3)
		idle(0)
		first()
		idle(3)
		second := begin(2)
		idle(1)
		third := begin(2 * maxIdleWorkers)
		idle(0)
		second()
		third()
		idle(maxIdleWorkers)
		last := begin(1)
		closed := make(chan struct{})
		go func() {
			w.close()
			w.close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while something runs")
		default:
		}
		last()
		<-closed
		idle(0)
	})
}
