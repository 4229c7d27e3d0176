package engine

import (
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/heap"
)

// Timer is a scheduled message, returned by Context.After. The zero value is a timer that
// has fired.
type Timer struct{ e *timer }

// Stop cancels the message and reports whether it did. A message that is already in the
// mailbox is still delivered.
func (t Timer) Stop() bool { return t.e != nil && t.e.c.sys.timers.drop(t.e) }

// timer is one entry of the heap, and the envelope of its message.
type timer struct {
	at          time.Duration // since the start of the heap
	seq         uint64        // orders timers due at the same time
	c           *cell
	incarnation uint32
	message     any

	index      int    // in the heap, or -1
	prev, next *timer // the other timers of the actor
}

// timers is the timer heap of a system. One goroutine, started with the first timer,
// serves all of them. With time.AfterFunc a timer would take twice the memory: see
// BenchmarkPendingTimers.
type timers struct {
	start time.Time
	wake  chan struct{}
	quit  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	heap    heap.Heap[*timer]
	seq     uint64
	running bool
	closed  bool
}

func newTimers() *timers {
	return &timers{
		start: time.Now(),
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		ended: make(chan struct{}),
		heap:  heap.New((*timer).before, (*timer).placed),
	}
}

// before reports whether t is sent before other.
func (t *timer) before(other *timer) bool {
	if t.at != other.at {
		return t.at < other.at
	}
	return t.seq < other.seq
}

func (t *timer) placed(index int) { t.index = index }

// add starts a timer of the actor c.
func (t *timers) add(c *cell, d time.Duration, m any) Timer {
	e := &timer{at: time.Since(t.start) + max(d, 0), c: c, incarnation: c.incarnation, message: m}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		e.index = -1
		return Timer{e}
	}
	t.seq++
	e.seq = t.seq
	if e.next = c.timers; e.next != nil {
		e.next.prev = e
	}
	c.timers = e
	t.heap.Push(e)
	if !t.running {
		t.running = true
		go t.run()
	} else if e.index == 0 {
		t.notify()
	}
	return Timer{e}
}

func (t *timers) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *timers) drop(e *timer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.index < 0 {
		return false
	}
	t.heap.Remove(e.index)
	e.unlink()
	return true
}

// dropAll drops the timers of the actor c.
func (t *timers) dropAll(c *cell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c.timers != nil {
		e := c.timers
		t.heap.Remove(e.index)
		e.unlink()
	}
}

// unlink removes e from its actor's list.
func (e *timer) unlink() {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		e.c.timers = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// run sends due messages until close.
func (t *timers) run() {
	defer close(t.ended)
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-t.wake:
		case <-clock.C:
		}
		if wait, ok := t.fire(); ok {
			clock.Reset(wait)
		} else {
			clock.Stop()
		}
	}
}

// fire sends due messages and returns the time until the next one, or false without one.
func (t *timers) fire() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Since(t.start)
	for t.heap.Len() > 0 {
		e := t.heap.Top()
		if e.at > now {
			return e.at - now, true
		}
		t.heap.Remove(e.index)
		e.unlink()
		e.c.post(e)
	}
	return 0, false
}

// close ends the goroutine and waits for it.
func (t *timers) close() {
	t.mu.Lock()
	running := t.running
	if !t.closed {
		t.closed = true
		close(t.quit)
	}
	t.mu.Unlock()
	if running {
		<-t.ended
	}
}
