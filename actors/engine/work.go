package engine

import "sync"

// maxIdleWorkers is the number of idle goroutines that are kept. A run holds one while it is appended, so
// there are many at once.
const maxIdleWorkers = 256

// workers are the goroutines of Context.Go and of mailboxes. A few idle ones are kept, because a new goroutine has a
// small stack, and growing that is the most expensive part of starting it. Work goes to the one that became idle last:
// so a quiet process uses a few of them, and the garbage collector shrinks the stacks of the others.
type workers struct {
	busy sync.WaitGroup

	mu    sync.Mutex
	idle  []chan func() // of idle goroutines, the latest last
	ended bool
}

func newWorkers() *workers { return &workers{} }

// run runs f on a goroutine.
func (w *workers) run(f func()) {
	w.busy.Add(1)
	w.mu.Lock()
	n := len(w.idle)
	if n == 0 {
		w.mu.Unlock()
		go w.work(f)
		return
	}
	task := w.idle[n-1]
	w.idle = w.idle[:n-1]
	w.mu.Unlock()
	task <- f
}

func (w *workers) work(f func()) {
	var task chan func()
	for more := true; more; {
		w.finish(f)
		w.mu.Lock()
		if w.ended || len(w.idle) == maxIdleWorkers {
			w.mu.Unlock()
			return
		}
		if task == nil {
			task = make(chan func(), 1)
		}
		w.idle = append(w.idle, task)
		w.mu.Unlock()
		f, more = <-task
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, task := range w.idle {
		close(task)
	}
	w.idle = nil
}
