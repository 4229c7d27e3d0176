package engine

import (
	"testing"
	"time"
)

func BenchmarkTell(b *testing.B) {
	s, _, _ := newTestSystem(b)
	done := make(chan struct{})
	n := 0
	r := s.Spawn(Agent, "a", made(func(c Context) {
		if _, ok := c.Message().(*int); ok {
			if n++; n == b.N {
				close(done)
			}
		}
	}), Supervision{})
	m := new(int)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.Tell(m)
	}
	<-done
}

func BenchmarkAsk(b *testing.B) {
	s, _, _ := newTestSystem(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Alive(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
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

func BenchmarkSpawnChildren(b *testing.B) {
	for name, sup := range map[string]Supervision{"stopped": {}, "discarded": {Discard: true}} {
		b.Run(name, func(b *testing.B) {
			s, _, _ := newTestSystem(b)
			b.ReportAllocs()
			b.ResetTimer()
			spawnIdle(b, s, sup)
		})
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
