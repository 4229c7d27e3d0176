package service

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/agentsignal/agentsignal/persistence/datadir"
)

// The heap may grow between two collections by what the process allocates in growthSeconds: by quietPercent at
// least, and at most by 100 percent, as by Go's default, or by its room if that is more. So a quiet process has little
// garbage, and one with little live does not spend its time on collections. Less than minLive live bytes count as minLive.
const (
	growthSeconds = 3
	quietPercent  = 25
	busyPercent   = 400
	heapRoom      = 128 << 20 // bytes, or 1/heapShare of the memory if that is less
	heapShare     = 16
	minLive       = 16 << 20
)

// limitHeap sets how much the heap may grow, each second until ctx ends. It leaves that to GOGC in the environment.
func limitHeap(ctx context.Context, log *slog.Logger) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	room := uint64(heapRoom)
	if memory, err := datadir.Memory(); err == nil {
		room = min(room, uint64(memory)/heapShare)
	}
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	before, set := samples[0].Value.Uint64(), debug.SetGCPercent(100)
	defer debug.SetGCPercent(set)
	percent := 100
	return every(ctx, log, time.Second, func() {
		metrics.Read(samples)
		allocated := samples[0].Value.Uint64()
		if p := heapGrowth(allocated-before, samples[1].Value.Uint64(), room); p != percent {
			percent = p
			debug.SetGCPercent(percent)
		}
		before = allocated
	})
}

// heapGrowth returns by how many percent the heap may grow where so many bytes were allocated in the last second and are
// live. It is quietPercent or a multiple of it by a power of two, as each change stops all goroutines for a moment.
func heapGrowth(allocated, live, room uint64) int {
	live = max(live, minLive)
	wanted := 100 * min(growthSeconds*allocated, max(live, room)) / live
	percent := quietPercent
	for percent < busyPercent && uint64(2*percent) <= wanted {
		percent *= 2
	}
	return percent
}
