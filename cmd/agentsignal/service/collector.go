package service

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// While the process allocates less than quietRate bytes a second and less than quietHeap bytes are live, its heap may
// grow by quietPercent percent between two collections; otherwise by usualPercent, as without this.
const (
	quietRate    = 4 << 20
	quietHeap    = 64 << 20
	quietPercent = 25
	usualPercent = 100
)

// collector has the garbage collector keep the heap of a quiet process small: a collection is cheap while few are
// needed. It is used by one goroutine.
type collector struct {
	allocated uint64 // bytes, when settle was called last
	at        time.Time
	percent   int
	set       func(percent int) // nil if GOGC in the environment decides
}

func newCollector() *collector {
	c := &collector{at: time.Now(), percent: usualPercent}
	if os.Getenv("GOGC") == "" {
		c.set = func(percent int) { debug.SetGCPercent(percent) }
	}
	return c
}

// settle chooses the percentage by what was allocated since the last call, and by what is live.
func (c *collector) settle() {
	if c.set == nil {
		return
	}
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	c.choose(samples[0].Value.Uint64(), samples[1].Value.Uint64(), time.Now())
}

// choose is settle at a time, with the bytes allocated until then and those that are live.
func (c *collector) choose(allocated, live uint64, now time.Time) {
	rate := float64(allocated-c.allocated) / max(now.Sub(c.at).Seconds(), 1e-3)
	c.allocated, c.at = allocated, now
	percent := usualPercent
	if rate < quietRate && live < quietHeap {
		percent = quietPercent
	}
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
