package dashboard

import (
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	maxWrite   = 64 << 10              // bytes for one connection in a turn
	retryAfter = 20 * time.Millisecond // pause after the kernel accepted no more bytes
	yieldEvery = 32                    // writes before other goroutines may run
)

// errRefused means that the kernel accepts no more bytes at present.
var errRefused = errors.New("socket buffer is full")

// source is the origin of the next bytes for a client.
type source uint8

const (
	fromNowhere source = iota
	fromPrivate
	fromReplay
	fromLog
)

// written is how the writing to a peer ended.
type written uint8

const (
	wroteAll  written = iota
	wroteSome         // there is more, for a later turn
	tooSlow           // the same, and the client has been behind for too long
	broken            // the connection is broken
)

// writer writes the frames of a flusher's connections and counts them. It knows which connections have
// something left to write, but not why: see next.
type writer struct {
	hub *Hub
	raw *rawWriter

	ready       []*peer // peers that have something to write
	readyBefore []*peer // the previous list, for reuse
	waiting     []*peer // peers whose kernel buffer is full
	retryAt     int64   // when they are retried

	writes  int    // since the last yield
	scratch []byte // buffer for a replay's frames

	// Counts that are not in the metrics yet.
	counted   tally
	sent      [channels]uint64
	sentBytes uint64
}

// tally counts the frames of each channel in a part of a cohort's log. Most members of
// a cohort get the same part in a pass, so the last count is kept.
type tally struct {
	cohort   *cohort
	from, to uint64
	channels [channels]uint64
}

func newWriter(h *Hub) *writer { return &writer{hub: h, raw: newRawWriter()} }

// next returns the bytes to write to p next. At a frame boundary private bytes come
// first, then the replay, then the cohort's log.
func (w *writer) next(p *peer) ([]byte, source) {
	private := p.privateDone < len(p.private)
	if r := p.replay; r != nil {
		if r.done > 0 && private {
			w.scratch = r.frames[r.next].appendTo(w.scratch[:0], p.transport)
			return w.scratch[r.done:], fromReplay
		}
		if !private && r.next < len(r.frames) {
			return w.gather(r, p.transport), fromReplay
		}
	}
	if c := p.cohort; c != nil && p.offset < c.end() {
		if !private {
			return c.behind(p), fromLog
		}
		if p.offset > c.start(p.frame) {
			return c.behind(p)[:c.start(p.frame+1)-p.offset], fromLog
		}
	}
	if private {
		return p.private[p.privateDone:], fromPrivate
	}
	return nil, fromNowhere
}

// gather returns the next bytes of a replay, at most maxWrite or one frame.
func (w *writer) gather(r *replaying, t transport) []byte {
	w.scratch = w.scratch[:0]
	for _, frame := range r.frames[r.next:] {
		if n := len(w.scratch); n > 0 && n+frame.size(t) > maxWrite {
			break
		}
		w.scratch = frame.appendTo(w.scratch, t)
	}
	return w.scratch[r.done:]
}

// advance records that n bytes from s were written.
func (w *writer) advance(p *peer, s source, n int) {
	w.sentBytes += uint64(n)
	switch s {
	case fromPrivate:
		p.privateDone += n
		if p.privateDone == len(p.private) {
			p.private, p.privateDone, p.privateMessages = nil, 0, 0
		}
	case fromReplay:
		for r := p.replay; n > 0; {
			left := r.frames[r.next].size(p.transport) - r.done
			if n < left {
				r.done += n
				return
			}
			w.sent[r.frames[r.next].channel]++
			r.frames[r.next] = nil
			n, r.done, r.next = n-left, 0, r.next+1
		}
	case fromLog:
		c, from := p.cohort, p.frame
		p.offset += uint64(n)
		if p.offset == c.end() {
			p.frame = c.endFrame()
		} else {
			for c.start(p.frame+1) <= p.offset {
				p.frame++
			}
		}
		w.count(c, from, p.frame)
	}
}

// write writes to p until p has everything, the kernel refuses, or budget bytes are written.
func (w *writer) write(p *peer, budget *int) written {
	for {
		b, s := w.next(p)
		if s == fromNowhere {
			return wroteAll
		}
		if *budget == 0 {
			w.queue(p)
			return wroteSome
		}
		b = b[:min(len(b), *budget)]
		n, err := p.socket.write(w.raw, b)
		w.yield()
		if n > 0 {
			w.advance(p, s, n)
			*budget -= n
		}
		switch {
		case errors.Is(err, errRefused), err == nil && n < len(b):
			return w.refuse(p)
		case err != nil:
			return broken
		}
	}
}

// queue gives p a turn in this pass or the next.
func (w *writer) queue(p *peer) {
	if !p.ready && !p.refused {
		p.ready = true
		w.ready = append(w.ready, p)
	}
}

// takeReady returns the peers that have something to write, and empties their list.
func (w *writer) takeReady() []*peer {
	w.ready, w.readyBefore = w.readyBefore[:0], w.ready
	return w.readyBefore
}

// takeWaiting returns the peers to write to again although the kernel has refused, if that is due.
func (w *writer) takeWaiting() []*peer {
	if w.due() > w.hub.clock() {
		return nil
	}
	waiting := w.waiting
	w.waiting = nil
	return waiting
}

// due returns when takeWaiting returns peers.
func (w *writer) due() int64 {
	if len(w.waiting) == 0 {
		return math.MaxInt64
	}
	return w.retryAt
}

// refuse records that the kernel accepts no more of p's bytes. A client that is over
// the limits of the queue then, and still is at a later try, is too slow: it had the time
// in between to read what was in the kernel's buffer.
func (w *writer) refuse(p *peer) written {
	now := w.hub.clock()
	if !p.refused {
		if len(w.waiting) == 0 {
			w.retryAt = now + int64(retryAfter)
		}
		p.refused = true
		w.waiting = append(w.waiting, p)
	}
	messages, bytes := p.privateMessages, len(p.private)-p.privateDone
	if c := p.cohort; c != nil {
		messages += int(c.endFrame() - p.frame)
		bytes += int(c.end() - p.offset)
	}
	switch {
	case messages <= w.hub.o.QueueMessages && bytes <= w.hub.o.QueueBytes:
		p.overSince = 0
	case p.overSince == 0:
		p.overSince = now
	case now-p.overSince >= int64(retryAfter):
		return tooSlow
	}
	return wroteSome
}

// send adds a message that is no event to p's private queue.
func (w *writer) send(p *peer, text []byte) {
	w.sendBytes(p, p.transport.append(nil, text, signal.Position{}))
}

// sendBytes adds what is no message to p's private queue, such as a control frame.
func (w *writer) sendBytes(p *peer, b []byte) {
	if p.ended() {
		return
	}
	p.private = append(p.private, b...)
	p.privateMessages++
	w.queue(p)
}

// yield lets other goroutines run after some writes, because raw system calls do not
// yield to the scheduler.
func (w *writer) yield() {
	if w.writes++; w.writes == yieldEvery {
		w.writes = 0
		runtime.Gosched()
	}
}

// count adds the frames of c's log with the numbers from to to-1 to the sent ones.
func (w *writer) count(c *cohort, from, to uint64) {
	if from == to {
		return
	}
	t := &w.counted
	if t.cohort != c || t.from != from || t.to != to {
		*t = tally{cohort: c, from: from, to: to}
		for _, m := range c.marks[from-c.first : to-c.first] {
			t.channels[m.channel]++
		}
	}
	for i, n := range t.channels {
		w.sent[i] += n
	}
}

// report updates the metrics.
func (w *writer) report() {
	w.counted.cohort = nil
	if w.sentBytes > 0 {
		w.hub.o.Metrics.sent(&w.sent, w.sentBytes)
		w.sent, w.sentBytes = [channels]uint64{}, 0
	}
}
