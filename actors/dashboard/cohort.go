package dashboard

import (
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// audience is what one flusher has of one account: its connections and the
// index from a frame to the cohorts that it concerns.
type audience struct {
	account     signal.AccountID
	partition   int
	peers       []*peer // a peer knows its place
	cohorts     map[string]*cohort
	everyAsset  [channels][]*cohort // without filter, or of channels without assets
	singleAsset map[assetKey][]*cohort
}

type assetKey struct {
	channel channel
	asset   string
}

func newAudience(account signal.AccountID, partition int) *audience {
	return &audience{account: account, partition: partition, cohorts: make(map[string]*cohort), singleAsset: make(map[assetKey][]*cohort)}
}

// concerned calls yield with every cohort that f concerns.
func (a *audience) concerned(f *frame, yield func(*cohort)) {
	for _, c := range a.everyAsset[f.channel] {
		yield(c)
	}
	if f.channel.hasAsset() && len(a.singleAsset) > 0 {
		for _, c := range a.singleAsset[assetKey{f.channel, f.asset}] {
			yield(c)
		}
	}
}

// cohort returns the cohort of sub, which it makes if there is none.
func (a *audience) cohort(sub *subscription) *cohort {
	c := a.cohorts[sub.key]
	if c != nil {
		return c
	}
	c = &cohort{sub: sub, audience: a}
	a.cohorts[sub.key] = c
	a.index(c, func(list []*cohort) []*cohort { return append(list, c) })
	return c
}

// drop forgets a cohort without members.
func (a *audience) drop(c *cohort) {
	delete(a.cohorts, c.sub.key)
	a.index(c, func(list []*cohort) []*cohort {
		if i := slices.Index(list, c); i >= 0 {
			last := len(list) - 1
			list[i], list[last] = list[last], nil
			list = list[:last]
		}
		return list
	})
}

// index changes every list in which c stands or is to stand.
func (a *audience) index(c *cohort, change func([]*cohort) []*cohort) {
	for ch := range channels {
		if !c.sub.channels.has(ch) {
			continue
		}
		if len(c.sub.assets) == 0 || !ch.hasAsset() {
			a.everyAsset[ch] = change(a.everyAsset[ch])
			continue
		}
		for _, asset := range c.sub.assets {
			k := assetKey{ch, asset}
			if list := change(a.singleAsset[k]); len(list) > 0 {
				a.singleAsset[k] = list
			} else {
				delete(a.singleAsset, k)
			}
		}
	}
}

// cohort is the connections of one account and flusher that get the same frames,
// and the log of those frames that not all of them have got. Only its flusher
// touches it.
type cohort struct {
	sub      *subscription
	audience *audience
	members  []*peer // a peer knows its place

	// The log. A member's place in it is an offset in bytes and a number of frames,
	// both counted from the cohort's beginning; base and first are those of log[0].
	log   []byte
	marks []mark // of each frame in log
	base  uint64
	first uint64

	fresh   int  // how many frames at the end of the log came since the last pass
	dirty   bool // stands in the flusher's list for the next pass
	lagging int  // members that did not get all that was there for them in a pass
}

// mark is the end of a frame in its cohort's log, counted from the log's beginning.
type mark struct {
	end     int
	ms      int64 // when its event was recorded
	channel channel
}

// end returns the offset behind the log's last frame, endFrame its number.
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
	c.log = grow(c.log, len(f.bytes))
	c.log = append(c.log, f.bytes...)
	c.marks = append(c.marks, mark{end: len(c.log), ms: f.at.MS, channel: f.channel})
	c.fresh++
}

// behind returns what p has not got yet of the log.
func (c *cohort) behind(p *peer) []byte { return c.log[p.offset-c.base:] }

// release gives the log's memory back. All members must have got all of it.
func (c *cohort) release() {
	c.base, c.first = c.end(), c.endFrame()
	recycle(c.log)
	c.log, c.marks, c.fresh = nil, c.marks[:0], 0
	if cap(c.marks) > 16 { // an idle cohort holds next to nothing
		c.marks = nil
	}
}

// compactFrom is the length from which on a log's read beginning is cut off,
// though a member still needs the end.
const compactFrom = 256 << 10

// compact cuts the beginning off that all members have got, if that is most of
// the log.
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

// join adds p, which gets what is appended from now on.
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

// Logs come from pools of three sizes, so that idle cohorts hold none and busy
// ones do not leave one size after the other to the garbage collector.
var logSizes = [...]int{4 << 10, 32 << 10, 256 << 10}

var logPools [len(logSizes)]sync.Pool // of *[]byte

// grow returns b with room for n more bytes.
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

// recycle gives b to the pool of its size, if it came from one.
func recycle(b []byte) {
	for i, size := range logSizes {
		if cap(b) == size {
			b = b[:0]
			logPools[i].Put(&b)
		}
	}
}
