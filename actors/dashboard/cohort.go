package dashboard

import "sync"

// cohort holds the connections of one account, flusher and transport that get the same frames, and
// the log of the frames that some of them still need. Only its flusher uses it.
type cohort struct {
	sub       *subscription
	transport transport
	audience  *audience
	members   []*peer // peer.place is its index

	// The log. A member's position in it is a byte offset and a frame number, both
	// counted from the cohort's beginning; base and first are those of log[0].
	log   []byte
	marks []mark // one for each frame in log
	base  uint64
	first uint64

	fresh   int  // frames appended since the last pass
	dirty   bool // listed in audiences.dirty for the next pass
	lagging int  // members that did not get all frames in a pass
}

// mark describes a frame in its cohort's log: end is its end, counted from log[0].
type mark struct {
	end     int
	ms      int64 // when its event was recorded
	channel channel
}

// end and endFrame return the offset and the number that the next frame will have.
func (c *cohort) end() uint64      { return c.base + uint64(len(c.log)) }
func (c *cohort) endFrame() uint64 { return c.first + uint64(len(c.marks)) }

// start returns the offset at which frame n begins; n may be endFrame.
func (c *cohort) start(n uint64) uint64 {
	if n == c.first {
		return c.base
	}
	return c.base + uint64(c.marks[n-c.first-1].end)
}

// append adds f to the log.
func (c *cohort) append(f *frame) {
	c.log = f.appendTo(grow(c.log, len(f.text)+maxEnvelope), c.transport)
	c.marks = append(c.marks, mark{end: len(c.log), ms: f.at.MS, channel: f.channel})
	c.fresh++
}

// behind returns the part of the log that p still needs.
func (c *cohort) behind(p *peer) []byte { return c.log[p.offset-c.base:] }

// release frees the log's memory. All members must have all of it.
func (c *cohort) release() {
	c.base, c.first = c.end(), c.endFrame()
	recycle(c.log)
	c.log, c.marks, c.fresh = nil, c.marks[:0], 0
	if cap(c.marks) > 16 { // an idle cohort keeps little memory
		c.marks = nil
	}
}

// compactFrom is the shortest log that compact works on.
const compactFrom = 256 << 10

// compact drops the beginning of a long log that all members have, if it is at least half
// of the log.
func (c *cohort) compact() {
	if len(c.log) < compactFrom {
		return
	}
	n := c.endFrame()
	for _, p := range c.members {
		n = min(n, p.frame)
	}
	cut := int(c.start(n) - c.base)
	if cut < len(c.log)/2 {
		return
	}
	rest := grow(nil, len(c.log)-cut)
	rest = append(rest, c.log[cut:]...)
	recycle(c.log)
	c.log = rest
	c.marks = append([]mark(nil), c.marks[n-c.first:]...)
	for i := range c.marks {
		c.marks[i].end -= cut
	}
	c.base, c.first = c.base+uint64(cut), n
}

// flushed ends a pass, in which frames were written to all members.
func (c *cohort) flushed() {
	c.dirty, c.fresh = false, 0
	if c.lagging == 0 {
		c.release()
	} else {
		c.compact()
	}
}

// caughtUp records that p got all frames.
func (c *cohort) caughtUp(p *peer) {
	if !p.lagging {
		return
	}
	p.lagging = false
	if c.lagging--; c.lagging == 0 && !c.dirty {
		c.release()
	}
}

// join adds p, which gets the frames appended from now on.
func (c *cohort) join(p *peer) {
	p.cohort, p.place = c, len(c.members)
	p.offset, p.frame, p.lagging = c.end(), c.endFrame(), false
	c.members = append(c.members, p)
}

// leave removes p.
func (c *cohort) leave(p *peer) {
	last := len(c.members) - 1
	moved := c.members[last]
	c.members[p.place], moved.place = moved, p.place
	c.members[last] = nil
	c.members = c.members[:last]
	if p.lagging {
		p.lagging = false
		c.lagging--
	}
	p.cohort = nil
	switch {
	case last == 0:
		c.audience.drop(c)
		c.release()
	case c.lagging == 0 && !c.dirty:
		c.release()
	}
}

// Logs come from pools of three sizes, so that an idle cohort keeps no buffer and a
// growing log does not produce garbage.
var logSizes = [...]int{4 << 10, 32 << 10, 256 << 10}

var logPools [len(logSizes)]sync.Pool // of *[]byte

// grow returns b with capacity for n more bytes.
func grow(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	for i, size := range logSizes {
		if need > size {
			continue
		}
		bigger, ok := logPools[i].Get().(*[]byte)
		if !ok {
			fresh := make([]byte, 0, size)
			bigger = &fresh
		}
		r := append((*bigger)[:0], b...)
		recycle(b)
		return r
	}
	r := append(make([]byte, 0, max(need, 2*cap(b))), b...)
	recycle(b)
	return r
}

// recycle returns b to the pool of its size, if there is one.
func recycle(b []byte) {
	for i, size := range logSizes {
		if cap(b) == size {
			b = b[:0]
			logPools[i].Put(&b)
		}
	}
}
