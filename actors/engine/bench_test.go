package engine

import (
	"testing"
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

func BenchmarkSpawnChildren(b *testing.B) {
	s, _, _ := newTestSystem(b)
	done := make(chan struct{})
	child := made(func(Context) {})
	b.ReportAllocs()
	b.ResetTimer()
	s.Spawn(Partition, "p", made(func(c Context) {
		if _, ok := c.Message().(Started); ok {
			for range b.N {
				c.Spawn(Signal, "s", child, Supervision{})
			}
			close(done)
		}
	}), Supervision{})
	<-done
}
