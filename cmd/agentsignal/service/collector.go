package service

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// While the process allocates less than quietRate bytes a second, its heap may grow by quietPercent percent
// between two collections; otherwise by usualPercent, as without this.
const (
	quietRate    = 8 << 20
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

// settle chooses the percentage by what was allocated since the last call.
func (c *collector) settle() {
	if c.set == nil {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	c.choose(sample[0].Value.Uint64(), time.Now())
}

// choose is settle at a time, with the bytes allocated until then.
func (c *collector) choose(allocated uint64, now time.Time) {
	rate := float64(allocated-c.allocated) / max(now.Sub(c.at).Seconds(), 1e-3)
	c.allocated, c.at = allocated, now
	percent := usualPercent
	if rate < quietRate {
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
