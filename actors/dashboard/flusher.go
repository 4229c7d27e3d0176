package dashboard

import (
	"runtime"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/heap"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	maxWrite    = 64 << 10              // bytes for one connection in a turn
	retryAfter  = 20 * time.Millisecond // pause after the kernel accepted no more bytes
	yieldEvery  = 32                    // writes before other goroutines may run
	pollLimit   = 2 * time.Millisecond  // for a poll of the network during a pass
	closingTime = 5 * time.Second       // time to write the close frame
	lingerTime  = 2 * time.Second       // time for the client's close frame after that
	recentFor   = 10 * time.Second      // how long a revocation also closes new connections
)

// order is a task for a flusher. Orders are applied in the order of posting.
type order interface{ apply(f *flusher) }

// flusher is the only writer of its connections. See the package comment.
type flusher struct {
	hub *Hub

	mu    sync.Mutex
	inbox []order
	ended bool
	wake  chan struct{} // holds a value when the inbox is not empty
	done  chan struct{} // closed when run has returned

	poller poller

	// The rest is used by run only.
	spare          []order // the previous inbox, for reuse
	audiences      map[signal.AccountID]*audience
	passed         map[int]passage
	revoked        map[signal.AccountID][]recent
	dirty          []*cohort
	awaitingPrices []*peer          // peers that want prices and have none yet
	ready          []*peer          // peers that have something to write
	readyBefore    []*peer          // the previous list, for reuse
	waiting        []*peer          // peers whose kernel buffer is full
	retryAt        int64            // when they are retried
	peers          heap.Heap[*peer] // by due: see newDeadlines
	draining       bool
	halted         bool
	pacing         pacing

	network netPoll
	crowded bool // other goroutines have held up a poll of the network during this pass
	writer  *rawWriter
	scratch []byte // buffer for a replay's frames
	writes  int    // since the last yield
	counted tally

	// Counts that are not in the metrics yet.
	sent      [channels]uint64
	sentBytes uint64
}

// passage is the range of events of a partition that a flusher has seen.
type passage struct{ first, last signal.Position }

// recent is a revocation of the last few seconds. It is kept because a connection that
// was authenticated just before it may arrive just after it.
type recent struct {
	revocation
	at    signal.Position
	clock int64
}

// tally counts the frames of each channel in a part of a cohort's log. Most members of
// a cohort get the same part in a pass, so the last count is kept.
type tally struct {
	cohort   *cohort
	from, to uint64
	channels [channels]uint64
}

func newFlusher(h *Hub) *flusher {
	return &flusher{
		hub:       h,
		poller:    poller{hub: h},
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		audiences: make(map[signal.AccountID]*audience),
		passed:    make(map[int]passage),
		revoked:   make(map[signal.AccountID][]recent),
		peers:     newDeadlines(),
		writer:    newRawWriter(),
	}
}

// post adds o to the inbox. It never waits.
func (f *flusher) post(o order) {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return
	}
	f.inbox = append(f.inbox, o)
	first := len(f.inbox) == 1
	f.mu.Unlock()
	if first {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

func (f *flusher) run() {
	defer close(f.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !f.halted {
		from := f.hub.clock()
		f.work()
		next := f.pacing.worked(from, f.hub.clock(), f.report(), f.peers.Len())
		if len(f.ready) > 0 || f.halted {
			continue
		}
		timer.Reset(f.idleFor())
		select {
		case <-f.wake:
		case <-timer.C:
		}
		time.Sleep(time.Duration(next - f.hub.clock()))
	}
	f.network.close()
	f.mu.Lock()
	f.ended, f.inbox = true, nil
	f.mu.Unlock()
}

// idleFor returns the time until something is due, if no order arrives before.
func (f *flusher) idleFor() time.Duration {
	next := f.hub.clock() + int64(time.Hour)
	if f.peers.Len() > 0 {
		next = min(next, f.peers.Top().due)
	}
	if len(f.waiting) > 0 {
		next = min(next, f.retryAt)
	}
	return time.Duration(max(0, next-f.hub.clock()))
}

// work does one pass: all orders, all due timers, then one turn of writing for each
// peer that has something to write.
func (f *flusher) work() {
	f.crowded = false
	f.mu.Lock()
	orders := f.inbox
	f.inbox = f.spare[:0]
	f.mu.Unlock()
	f.each(len(orders), func(i int) {
		o := orders[i]
		orders[i] = nil
		o.apply(f)
	})
	const maxSpare = 4096 // a larger inbox is left to the garbage collector
	if f.spare = orders; cap(orders) > maxSpare {
		f.spare = nil
	}
	f.hub.guard(f.expire)

	f.each(len(f.dirty), func(i int) {
		c := f.dirty[i]
		f.dirty[i] = nil
		// Deferred so that the next event flushes the cohort again after a panic.
		defer func() { c.dirty, c.fresh = false, 0 }()
		f.flush(c)
	})
	f.dirty = f.dirty[:0]

	f.ready, f.readyBefore = f.readyBefore[:0], f.ready
	f.each(len(f.readyBefore), func(i int) {
		p := f.readyBefore[i]
		f.readyBefore[i] = nil
		p.ready = false
		f.turn(p)
	})
	if len(f.waiting) > 0 && f.retryAt <= f.hub.clock() {
		f.retry()
	}
}

// each calls do for 0 to n-1 and recovers from panics, so that a faulty order, cohort or
// connection does not affect the others.
func (f *flusher) each(n int, do func(i int)) {
	panics.GuardEach(f.hub.o.Logger, panics.Dashboard, n, do, nil)
}

// flush writes to all members of c the frames that they still need.
func (f *flusher) flush(c *cohort) {
	for i := 0; i < len(c.members); {
		p := c.members[i]
		if !p.ready && !p.refused {
			f.turn(p)
			if i >= len(c.members) || c.members[i] != p {
				continue // it was closed, and another one took its place
			}
		}
		if p.offset < c.end() && !p.lagging {
			p.lagging = true
			c.lagging++
		}
		i++
	}
	f.observe(c)
	c.dirty, c.fresh = false, 0
	if c.lagging == 0 {
		c.release()
	} else {
		c.compact()
	}
}

// observe records the delivery lag of the frames that this pass wrote.
func (f *flusher) observe(c *cohort) {
	if f.hub.o.Metrics == nil || len(c.members) == 0 {
		return
	}
	now := f.hub.o.Now().UnixMilli()
	for _, m := range c.marks[len(c.marks)-c.fresh:] {
		f.hub.o.Metrics.lag(now - m.ms)
	}
}

// retry writes again to the peers whose kernel buffer was full.
func (f *flusher) retry() {
	waiting := f.waiting
	f.waiting = nil
	f.each(len(waiting), func(i int) {
		if p := waiting[i]; p.refused {
			p.refused = false
			f.turn(p)
		}
	})
}

// yield lets other goroutines run after some writes, because raw system calls do not
// yield to the scheduler, and has the network polled. In a pass in which that takes too long, because
// others are always runnable, it only lets them run.
func (f *flusher) yield() {
	if f.writes++; f.writes < yieldEvery {
		return
	}
	f.writes = 0
	if f.crowded {
		runtime.Gosched()
		return
	}
	from := f.hub.clock()
	f.network.poll()
	f.crowded = f.hub.clock()-from > int64(pollLimit)
}

// count adds the frames of c's log with the numbers from to to-1 to the sent ones.
func (f *flusher) count(c *cohort, from, to uint64) {
	if from == to {
		return
	}
	t := &f.counted
	if t.cohort != c || t.from != from || t.to != to {
		*t = tally{cohort: c, from: from, to: to}
		for _, m := range c.marks[from-c.first : to-c.first] {
			t.channels[m.channel]++
		}
	}
	for i, n := range t.channels {
		f.sent[i] += n
	}
}

// report updates the metrics, and returns how many frames were written since the last report.
func (f *flusher) report() (frames uint64) {
	f.counted.cohort = nil
	if f.sentBytes == 0 {
		return 0
	}
	for _, n := range f.sent {
		frames += n
	}
	f.hub.o.Metrics.sent(&f.sent, f.sentBytes)
	f.sent, f.sentBytes = [channels]uint64{}, 0
	return frames
}
