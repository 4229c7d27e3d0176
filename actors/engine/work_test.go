package engine

import (
	"slices"
	"testing"
	"testing/synctest"
)

func TestGoroutinesAreUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		waiting := func() []chan func() {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.idle)
		}
		idle := func(want int) {
			t.Helper()
			wantCount(t, "goroutines waiting for work", len(waiting()), want)
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
		before := waiting()
		second := begin(2)
		if got := waiting(); !slices.Equal(got, before[:1]) {
			t.Errorf("%d goroutines wait, or not the one that was idle longest", len(got))
		}
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
