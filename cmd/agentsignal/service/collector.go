package service

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/persistence/datadir"
)

// The heap of a quiet process may grow by quietPercent percent between two collections. A process is quiet while less than
// quietHeap bytes are live and it allocates in quietTime no more than quietPercent percent of them: its collections are about as
// far apart as that, and cost little of whatever it does.
//
// The heap of a busy process may grow by usualPercent percent, as by Go's own default, or by its room if that is more: with
// little live, collections would otherwise take a large part of the work. The room is busyRoom bytes, or 1/busyShare of the
// memory if that is less. Less than minLive live bytes count as minLive.
const (
	quietHeap    = 64 << 20
	quietTime    = 3 * time.Second
	quietPercent = 15
	usualPercent = 100
	busyRoom     = 128 << 20
	busyShare    = 16
	minLive      = 32 << 20
	// percentStep is what percentages of a busy process are multiples of: each change stops all goroutines for a moment.
	percentStep = 50
)

// stopMemoryProfile ends the sampling of allocations of this process, whose table takes 2 MB.
var stopMemoryProfile = sync.OnceFunc(func() { runtime.MemProfileRate = 0 })

// collector has the garbage collector keep the heap of a quiet process small. It is used by one goroutine.
type collector struct {
	room      uint64 // bytes by which the heap of a busy process may grow
	allocated uint64 // bytes, when the present measurement began
	since     time.Time
	percent   int
	set       func(percent int) // nil if GOGC in the environment decides
}

func newCollector() *collector {
	c := &collector{room: busyRoom, since: time.Now(), percent: usualPercent}
	if memory, err := datadir.Memory(); err == nil {
		c.room = min(c.room, uint64(memory)/busyShare)
	}
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
		percent = max(usualPercent, int(100*c.room/max(live, minLive))/percentStep*percentStep)
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
