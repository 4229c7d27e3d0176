package service

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The heap of a quiet process may grow by quietPercent percent between two collections, that of others by usualPercent, as
// by Go's own default. A process is quiet while less than quietHeap bytes are live and it allocates in quietTime no more than
// quietPercent percent of them: its collections are about as far apart as that, and cost little of whatever it does.
const (
	quietHeap    = 64 << 20
	quietTime    = 3 * time.Second
	quietPercent = 15
	usualPercent = 100
)

// collector has the garbage collector keep the heap of a quiet process small. It is used by one goroutine.
type collector struct {
	allocated uint64 // bytes, when the present measurement began
	since     time.Time
	percent   int
	set       func(percent int) // nil if GOGC in the environment decides
}

func newCollector() *collector {
	c := &collector{since: time.Now(), percent: usualPercent}
	if os.Getenv("GOGC") == "" {
		c.set = func(percent int) { debug.SetGCPercent(percent) }
	}
	return c
}

// settle chooses the percentage by what was allocated and by what is live. It is called each collectEvery.
func (c *collector) settle() {
	if c.set == nil {
		return
	}
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	c.choose(samples[0].Value.Uint64(), samples[1].Value.Uint64(), time.Now())
}

// choose is settle at a time, with the bytes allocated until then and those that are live. It notices work once that has
// allocated too much, and its end after quietTime.
func (c *collector) choose(allocated, live uint64, now time.Time) {
	percent := quietPercent
	switch {
	case live >= quietHeap || allocated-c.allocated > live*quietPercent/100:
		percent = usualPercent
	case now.Sub(c.since) < quietTime-collectEvery/2: // a call may come early
		return
	}
	c.allocated, c.since = allocated, now
	if percent != c.percent {
		c.percent = percent
		c.set(percent)
	}
}

// end restores what is usual.
func (c *collector) end() {
	if c.percent != usualPercent {
		c.set(usualPercent)
	}
}
