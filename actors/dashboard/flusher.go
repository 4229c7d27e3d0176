package dashboard

import (
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// order is a task for a flusher. Orders are applied in the order of posting.
type order interface{ apply(f *flusher) }

// flusher is the only goroutine that writes to its connections. It applies orders and makes passes; see
// the package comment. Its parts are used by run only.
type flusher struct {
	hub *Hub

	mu    sync.Mutex
	inbox []order
	ended bool
	wake  chan struct{} // holds a value when the inbox is not empty
	done  chan struct{} // closed when run has returned

	poller poller

	// The rest is used by run only.
	spare    []order // the previous inbox, for reuse
	draining bool
	halted   bool

	writer     *writer
	audiences  *audiences
	lifecycle  *lifecycle
	membership *membership
	revoked    revocations
}

func newFlusher(h *Hub) *flusher {
	f := &flusher{
		hub:     h,
		poller:  poller{hub: h},
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		revoked: revocations{of: map[signal.AccountID]map[revocation]recent{}},
	}
	f.writer = newWriter(h)
	f.audiences = newAudiences(h)
	f.lifecycle = newLifecycle(h, f.writer, f.audiences)
	f.membership = &membership{hub: h, writer: f.writer, audiences: f.audiences, lifecycle: f.lifecycle}
	return f
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
		f.work()
		f.writer.report()
		if len(f.writer.ready) > 0 || f.halted {
			continue
		}
		timer.Reset(f.idleFor())
		select {
		case <-f.wake:
		case <-timer.C:
		}
	}
	f.mu.Lock()
	f.ended, f.inbox = true, nil
	f.mu.Unlock()
}

// idleFor returns the time until something is due, if no order arrives before.
func (f *flusher) idleFor() time.Duration {
	now := f.hub.clock()
	next := min(now+int64(time.Hour), f.lifecycle.due(), f.writer.due())
	return time.Duration(max(0, next-now))
}

// work does one pass: all orders, all due timers, then one turn of writing for each
// peer that has something to write.
func (f *flusher) work() {
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
	f.hub.guard(f.lifecycle.expire)

	dirty := f.audiences.dirty
	f.each(len(dirty), func(i int) {
		c := dirty[i]
		dirty[i] = nil
		// Deferred so that the next event flushes the cohort again after a panic.
		defer func() { c.dirty, c.fresh = false, 0 }()
		f.flush(c)
	})
	f.audiences.dirty = dirty[:0]

	ready := f.writer.takeReady()
	f.each(len(ready), func(i int) {
		p := ready[i]
		ready[i] = nil
		p.ready = false
		f.turn(p)
	})
	waiting := f.writer.takeWaiting()
	f.each(len(waiting), func(i int) {
		if p := waiting[i]; p.refused {
			p.refused = false
			f.turn(p)
		}
	})
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
	if m := f.hub.o.Metrics; m != nil && len(c.members) > 0 {
		now := f.hub.o.Now().UnixMilli()
		for _, frame := range c.marks[len(c.marks)-c.fresh:] {
			m.lag(now - frame.ms)
		}
	}
	c.flushed()
}

// turn writes to p until p has everything, the kernel refuses, or maxWrite bytes are
// written.
func (f *flusher) turn(p *peer) {
	if p.removed || p.finished || p.refused {
		return
	}
	for budget := maxWrite; ; {
		switch f.writer.write(p, &budget) {
		case wroteAll:
			p.overSince = 0
			if p.cohort != nil {
				p.cohort.caughtUp(p)
			}
			if p.replay != nil {
				if f.membership.catchUp(p) {
					return
				}
				continue // with the frames that were published meanwhile
			}
			if p.closed.code != 0 {
				f.lifecycle.finish(p)
			}
		case tooSlow:
			f.lifecycle.close(p, closeSlow)
		case broken:
			f.lifecycle.abandon(p)
		case wroteSome:
		}
		return
	}
}

// revoke closes the connections whose credentials are no longer valid, by the frames of revocations.
func (f *flusher) revoke(frames []*frame) {
	now := f.hub.clock()
	accounts := map[signal.AccountID]bool{}
	for _, e := range frames {
		f.revoked.record(e, now)
		accounts[e.account] = true
	}
	for account := range accounts {
		for _, p := range f.audiences.peers(account) {
			if why, hit := f.revoked.hit(account, p.key, p.session, now); hit {
				f.lifecycle.close(p, why)
			}
		}
	}
}
