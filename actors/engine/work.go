package engine

import (
	"sync"
	"sync/atomic"
)

// maxIdleWorkers is the number of idle goroutines that are kept. A run holds one while it is appended, so
// there are many at once. The garbage collector shrinks the stacks of idle ones.
const maxIdleWorkers = 256

// workers are the goroutines of Context.Go and of mailboxes. A few idle ones are kept,
// because a new goroutine has a small stack, and growing that is the most expensive part
// of starting it.
type workers struct {
	busy  sync.WaitGroup
	tasks chan func()
	idle  atomic.Int32
	ended sync.Once
}

func newWorkers() *workers { return &workers{tasks: make(chan func())} }

// run runs f on a goroutine.
func (w *workers) run(f func()) {
	w.busy.Add(1)
	select {
	case w.tasks <- f: // an idle goroutine takes it
	default:
		go w.work(f)
	}
}

func (w *workers) work(f func()) {
	for more := true; more; {
		w.finish(f)
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		f, more = <-w.tasks
		w.idle.Add(-1)
	}
}

func (w *workers) finish(f func()) {
	defer w.busy.Done()
	f()
}

// close waits for all running functions and ends the idle goroutines. It may be called
// more than once, but run must not be called after it.
func (w *workers) close() {
	w.busy.Wait()
	w.ended.Do(func() { close(w.tasks) })
}
