package engine

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// pendingTimers is how many timers a node with as many open signals has.
const pendingTimers = 100_000

// BenchmarkPendingTimers starts so many timers of as many actors, stops half of them and
// has the others fire, by the heap of this package and by time.AfterFunc.
func BenchmarkPendingTimers(b *testing.B) {
	type start func(c *cell, d time.Duration, m any) (stop func() bool)
	s, _, _ := newTestSystem(b)
	for _, way := range []struct {
		name  string
		start start
	}{
		{"heap", func(c *cell, d time.Duration, m any) func() bool { return s.timers.add(c, d, m).Stop }},
		{"AfterFunc", func(c *cell, d time.Duration, m any) func() bool {
			e := &funcTimer{c: c, incarnation: c.incarnation, message: m}
			e.t = time.AfterFunc(d, e.fire)
			return e.t.Stop
		}},
	} {
		b.Run(way.name, func(b *testing.B) { measureTimers(b, s, way.start) })
	}
}

// funcTimer is the least that a timer needs by time.AfterFunc: the envelope and the
// runtime's timer.
type funcTimer struct {
	t           *time.Timer
	c           *cell
	incarnation uint32
	message     any
	_, _        *funcTimer // the other timers of the actor, for their size
}

func (e *funcTimer) fire() { e.c.post(&outcome{incarnation: e.incarnation, message: e.message}) }

func measureTimers(b *testing.B, s *System, start func(*cell, time.Duration, any) func() bool) {
	cells := make([]*cell, pendingTimers)
	fired := make(chan struct{}, pendingTimers)
	child := made(func(c Context) {
		if _, ok := c.Message().(int); ok {
			fired <- struct{}{}
		}
	})
	spawned := make(chan struct{})
	parent := s.Spawn(Partition, "p", made(func(c Context) {
		if _, ok := c.Message().(Started); ok {
			for i := range cells {
				cells[i] = c.Spawn(Signal, "s", child, Supervision{}).c
			}
			close(spawned)
		}
	}), Supervision{Discard: true})
	<-spawned
	defer s.End(b.Context(), parent)
	stops := make([]func() bool, pendingTimers)
	for b.Loop() {
		clear(stops)
		before := heapInUse()
		begun, cpu := time.Now(), cpuTime()
		for i, c := range cells {
			// Due in an order that is not that of their start, after a second.
			stops[i] = start(c, time.Second+time.Duration(i*7919%pendingTimers)*10*time.Microsecond, i)
		}
		started, cpuStarted := time.Since(begun), cpuTime()-cpu
		b.ReportMetric(float64(heapInUse()-before)/pendingTimers, "B/timer")
		cpu = cpuTime()
		for i := 0; i < pendingTimers; i += 2 {
			stops[i]()
		}
		for range pendingTimers / 2 {
			<-fired
		}
		b.ReportMetric(float64(started.Nanoseconds())/pendingTimers, "ns/start")
		b.ReportMetric(float64((cpuStarted+cpuTime()-cpu).Nanoseconds())/pendingTimers, "cpu-ns/timer")
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // which does not fail for this process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
