package engine

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// tellers starts n children of one actor that call receive for each message of the
// benchmark, and returns what sends to the child with an index.
type tellers func(b *testing.B, n int, receive func()) (tell func(i int, m any))

// BenchmarkMailbox compares actors of this package with actors that have the library's
// own mailbox, dispatcher and names: decision 31 has the figures.
func BenchmarkMailbox(b *testing.B) {
	for name, start := range map[string]tellers{
		"engine":  engineTellers,
		"library": libraryTellers(),
		"counted": libraryTellers(actor.WithReceiverMiddleware(countMessages)),
	} {
		b.Run(name+"/idle", func(b *testing.B) {
			before := heapAndStacks()
			b.ResetTimer()
			tell := start(b, b.N, func() {})
			b.StopTimer()
			b.ReportMetric(float64(heapAndStacks()-before)/float64(b.N), "bytes/actor")
			runtime.KeepAlive(tell)
		})
		for _, c := range []struct{ actors, inFlight int }{{1, 1}, {1, 64}, {10_000, 10_000}} {
			b.Run(fmt.Sprintf("%s/%d actors/%d in flight", name, c.actors, c.inFlight), func(b *testing.B) {
				var handled sync.WaitGroup
				tell := start(b, c.actors, handled.Done)
				m := new(int)
				b.ReportAllocs()
				b.ResetTimer()
				for sent := 0; sent < b.N; {
					round := min(c.inFlight, b.N-sent)
					handled.Add(round)
					for i := range round {
						tell(i%c.actors, m)
					}
					handled.Wait()
					sent += round
				}
			})
		}
	}
}

func engineTellers(b *testing.B, n int, receive func()) func(int, any) {
	s, _, _ := newTestSystem(b)
	refs, ready := make([]Ref, n), make(chan struct{})
	child := made(func(c Context) {
		if _, ok := c.Message().(*int); ok {
			receive()
		}
	})
	s.Spawn(Partition, "p", made(func(c Context) {
		if _, ok := c.Message().(Started); ok {
			for i := range refs {
				refs[i] = c.Spawn(Signal, "s", child, Supervision{Discard: true})
			}
			close(ready)
		}
	}), Supervision{Discard: true})
	<-ready
	return func(i int, m any) { refs[i].Tell(m) }
}

func libraryTellers(options ...actor.PropsOption) tellers {
	return func(b *testing.B, n int, receive func()) func(int, any) {
		s := actor.NewActorSystem()
		b.Cleanup(s.Shutdown)
		pids, ready := make([]*actor.PID, n), make(chan struct{})
		child := actor.PropsFromFunc(func(c actor.Context) {
			if _, ok := c.Message().(*int); ok {
				receive()
			}
		}, options...)
		s.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok {
				for i := range pids {
					pids[i] = c.Spawn(child)
				}
				close(ready)
			}
		}))
		<-ready
		return func(i int, m any) { s.Root.Send(pids[i], m) }
	}
}

var counted atomic.Int64

// countMessages is the least that a middleware of the library can do.
func countMessages(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, m *actor.MessageEnvelope) {
		counted.Add(1)
		next(c, m)
	}
}

func heapAndStacks() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// spawnIdle spawns a parent with b.N children, and returns when all have started.
func spawnIdle(b *testing.B, s *System, sup Supervision) {
	child := made(func(Context) {})
	s.Spawn(Partition, "p", made(func(c Context) {
		if _, ok := c.Message().(Started); ok {
			for range b.N {
				c.Spawn(Signal, "s", child, Supervision{})
			}
		}
	}), sup)
	for idle := false; !idle; time.Sleep(time.Millisecond) {
		idle = s.metrics.of(Signal).running.Load() == int64(b.N) && s.Alive(b.Context()) == nil
	}
}

// BenchmarkEnd ends an actor with b.N idle children: the time is that of one child.
func BenchmarkEnd(b *testing.B) {
	for name, sup := range map[string]Supervision{"stopped": {}, "discarded": {Discard: true}} {
		b.Run(name, func(b *testing.B) {
			s := NewSystem(Options{})
			spawnIdle(b, s, sup)
			b.ResetTimer()
			shutdown(b, s)
		})
	}
}
