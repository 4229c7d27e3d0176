package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// actorFunc is an Actor made of a function.
type actorFunc func(c Context)

func (f actorFunc) Receive(c Context) { f(c) }

// made returns a producer of actors with the Receive function f.
func made(f func(c Context)) func() Actor { return func() Actor { return actorFunc(f) } }

// logLines collects what is logged.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logLines) matching(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func newTestSystem(tb testing.TB) (*System, *Metrics, *logLines) {
	lines := &logLines{}
	metrics := NewMetrics(prometheus.NewRegistry())
	s := NewSystem(Options{Log: slog.New(slog.NewTextHandler(lines, nil)), Metrics: metrics})
	tb.Cleanup(func() { shutdown(tb, s) })
	return s, metrics, lines
}

func shutdown(tb testing.TB, s *System) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		tb.Errorf("Shutdown: %v", err)
	}
}

// record lists the messages that an actor received.
type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf(format, args...))
}

func (r *record) want(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := cmp.Diff(want, r.list); d != "" {
		t.Errorf("received (-want +got):\n%s", d)
	}
	r.list = nil
}

// wantCount checks a number of something.
func wantCount[N int | int32 | int64](t *testing.T, what string, got, want N) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

// text returns the text of a message for a record.
func text(m any) string {
	switch m := m.(type) {
	case Started, Stopping, Restarting:
		return strings.TrimPrefix(fmt.Sprintf("%T", m), "engine.")
	case Terminated:
		return "Terminated " + m.Ref.String()
	case string:
		return m
	}
	return fmt.Sprint(m)
}

// Not parallel: it counts all objects. The maps of the library for actors were 32,768.
func TestASystemIsSmall(t *testing.T) {
	objects := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what the first one has put aside from pools
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	before := objects()
	s := NewSystem(Options{})
	if kept := int64(objects() - before); kept > 5000 {
		t.Errorf("a system keeps %d objects, want 5,000 at most", kept)
	}
	shutdown(t, s)
}

func TestIdleActorsHaveNoMailbox(t *testing.T) {
	t.Parallel()
	for name, sup := range map[string]Supervision{"children": {}, "discarded children": {Discard: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewSystem(Options{})
				var children []Ref
				s.Spawn(Partition, "p", made(func(c Context) {
					if _, ok := c.Message().(Started); ok {
						for range 100 {
							children = append(children, c.Spawn(Signal, "s", made(func(Context) {}), Supervision{}))
						}
					}
				}), sup)
				synctest.Wait()
				for _, child := range children {
					child.Tell("work")
				}
				synctest.Wait()
				for i, child := range children {
					if box := child.c.mailbox.messages; box != nil {
						t.Errorf("child %d has %+v", i, *box)
					}
				}
				shutdown(t, s)
			})
		})
	}
}

// Actors that work in turn share mailboxes. None gets the messages of another, whatever happened before.
func TestMailboxesAreShared(t *testing.T) {
	t.Parallel()
	s, _, _ := newTestSystem(t)
	const actors, rounds = 8, 300
	type numbered struct{ actor, round int }
	var foreign, handled atomic.Int32
	done := make(chan struct{}, actors)
	spawn := func(i int) Ref {
		return s.Spawn(Agent, "a", made(func(c Context) {
			switch m := c.Message().(type) {
			case numbered:
				if m.actor != i {
					foreign.Add(1)
				}
				handled.Add(1)
				if m.round%50 == 0 && m.round > 0 {
					panic("planned")
				}
			case chan struct{}:
				m <- struct{}{}
			}
		}), Supervision{})
	}
	for i := range actors {
		go func() {
			r := spawn(i)
			for round := range rounds {
				r.Tell(numbered{i, round})
				if round%20 == 19 {
					answered := make(chan struct{}, 1)
					r.Tell(answered)
					<-answered
				}
				if round%100 >= 98 { // with a message left, and with none
					s.root.c.Stop(r)
					r = spawn(i)
				}
			}
			done <- struct{}{}
		}()
	}
	for range actors {
		<-done
	}
	if n := foreign.Load(); n > 0 || handled.Load() == 0 {
		t.Errorf("%d of %d messages came to other actors", n, handled.Load())
	}
}

func TestMessagesArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, _ := newTestSystem(t)
		var got []int
		r := s.Spawn(Agent, "a", made(func(c Context) {
			if n, ok := c.Message().(int); ok {
				got = append(got, n)
			}
		}), Supervision{})
		for i := range 10_000 {
			r.Tell(i)
		}
		synctest.Wait()
		if len(got) != 10_000 {
			t.Fatalf("%d messages arrived, want 10000", len(got))
		}
		for i, n := range got {
			if i != n {
				t.Fatalf("message %d is %d", i, n)
			}
		}
		stats := metrics.of(Agent)
		wantCount(t, "messages counted", stats.messages.Load(), 10_000)
		wantCount(t, "messages waiting", stats.mailbox.Load(), 0)
		wantCount(t, "actors running", stats.running.Load(), 1)
	})
}

func TestStopOvertakesAndPoisonWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c Context, r Ref)
		want []string
		dead int64
	}{
		{"stop overtakes the mailbox", Context.Stop, []string{"first", "Stopping"}, 3},
		{"poison comes after it", Context.Poison, []string{"first", "second", "third", "Stopping"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, metrics, _ := newTestSystem(t)
				var rec record
				hold := make(chan struct{})
				r := s.Spawn(Agent, "a", made(func(c Context) {
					if _, ok := c.Message().(Started); ok {
						return
					}
					rec.add("%s", text(c.Message()))
					if c.Message() == "first" {
						<-hold
					}
				}), Supervision{})
				ender := s.Spawn(Supervisor, "e", made(func(c Context) {
					if target, ok := c.Message().(Ref); ok {
						tt.end(c, target)
					}
				}), Supervision{})
				r.Tell("first")
				r.Tell("second")
				r.Tell("third")
				synctest.Wait()
				ender.Tell(r)
				synctest.Wait()
				r.Tell("after")
				close(hold)
				synctest.Wait()
				rec.want(t, tt.want...)
				wantCount(t, "dead letters counted", metrics.of(Agent).dead.Load(), tt.dead)
				wantCount(t, "messages waiting", metrics.of(Agent).mailbox.Load(), 0)
			})
		})
	}
}

func TestContextEndsWithTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		var contexts []context.Context
		var endedBefore []bool
		r := s.Spawn(Agent, "a", made(func(c Context) {
			switch c.Message() {
			case Started{}:
				contexts = append(contexts, c.Context())
			case Restarting{}, Stopping{}:
				endedBefore = append(endedBefore, c.Context().Err() != nil)
			case "boom":
				panic("boom")
			case "end":
				c.Stop(c.Self())
			}
		}), Supervision{})
		r.Tell("boom")
		synctest.Wait()
		if contexts[0].Err() == nil || contexts[1].Err() != nil {
			t.Errorf("after a restart: %v, %v; want only the first cancelled", contexts[0].Err(), contexts[1].Err())
		}
		r.Tell("end")
		synctest.Wait()
		if contexts[1].Err() == nil {
			t.Error("the context outlives the actor")
		}
		if d := cmp.Diff([]bool{true, true}, endedBefore); d != "" {
			t.Errorf("cancelled before the last message (-want +got):\n%s", d)
		}
	})
}

func TestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, lines := newTestSystem(t)
		var rec record
		r := s.Spawn(Agent, "a", made(func(c Context) {
			rec.add("%s", text(c.Message()))
			switch c.Message() {
			case "slow":
				c.Go(func(context.Context) any { time.Sleep(time.Second); return "result" })
			case "silent":
				c.Go(func(context.Context) any { return nil })
			case "panics":
				c.Go(func(context.Context) any { panic("in a goroutine") })
			case "boom":
				panic("boom")
			}
		}), Supervision{})
		r.Tell("slow")
		r.Tell("silent")
		time.Sleep(2 * time.Second)
		rec.want(t, "Started", "slow", "silent", "result")

		r.Tell("slow")
		r.Tell("boom")
		time.Sleep(2 * time.Second)
		rec.want(t, "slow", "boom", "Restarting", "Started")

		r.Tell("panics")
		time.Sleep(time.Second)
		rec.want(t, "panics", "Restarting", "Started")
		if got := lines.matching("in a goroutine"); got != 1 {
			t.Errorf("panic of a goroutine logged %d times, want 1", got)
		}
		wantCount(t, "dead letters counted", metrics.of(Agent).dead.Load(), 0)
	})
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		var rec record
		start := time.Now()
		r := s.Spawn(Agent, "a", made(func(c Context) {
			switch m := c.Message().(type) {
			case string:
				rec.add("%v %s", time.Since(start), m)
			case func(Context):
				m(c)
			}
		}), Supervision{})
		r.Tell(func(c Context) {
			c.After(3*time.Second, "third")
			c.After(time.Second, "first")
			stopped := c.After(2*time.Second, "stopped")
			c.After(2*time.Second, "second")
			c.After(2*time.Second, "second, again")
			c.After(-time.Second, "now")
			c.After(8*time.Hour, "last")
			if !stopped.Stop() || stopped.Stop() {
				t.Error("Stop: want true, then false")
			}
			if (Timer{}).Stop() {
				t.Error("Stop of the zero value: want false")
			}
		})
		time.Sleep(9 * time.Hour)
		rec.want(t, "0s now", "1s first", "2s second", "2s second, again", "3s third", "8h0m0s last")

		r.Tell(func(c Context) {
			c.After(time.Second, "of an earlier incarnation")
			panic("boom")
		})
		r.Tell(func(c Context) { c.After(time.Second, "of this one") })
		time.Sleep(time.Minute)
		rec.want(t, "9h0m1s of this one")

		r.Tell(func(c Context) {
			c.After(time.Second, "in the mailbox at the restart")
			time.Sleep(2 * time.Second)
			panic("boom")
		})
		time.Sleep(time.Minute)
		rec.want(t)

		r.Tell(func(c Context) { c.After(time.Hour, "never"); c.Stop(c.Self()) })
		synctest.Wait()
		if n := s.timers.heap.Len(); n != 0 {
			t.Errorf("%d timers are left of actors that ended", n)
		}
	})
}

func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		type question struct{ reply chan<- int }
		r := s.Spawn(Agent, "a", made(func(c Context) {
			switch m := c.Message().(type) {
			case question:
				m.reply <- 42
			case string:
				c.Stop(c.Self())
			}
		}), Supervision{})
		ask := func(reply chan<- int) any { return question{reply} }
		if got, err := Ask(t.Context(), r, ask); got != 42 || err != nil {
			t.Errorf("Ask: %d, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Ask(ctx, r, func(chan<- int) any { return 0 }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Ask without an answer: %v", err)
		}
		if _, err := Ask(t.Context(), r, func(chan<- int) any { return "end" }); !errors.Is(err, ErrStopped) {
			t.Errorf("Ask of an actor that ends: %v", err)
		}
		if _, err := Ask(t.Context(), r, ask); !errors.Is(err, ErrStopped) {
			t.Errorf("Ask of an actor that has ended: %v", err)
		}
		if _, err := Ask(t.Context(), Ref{}, ask); !errors.Is(err, ErrStopped) {
			t.Errorf("Ask of the zero Ref: %v", err)
		}
	})
}

func TestShutdownEndsTheYoungestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		var rec record
		for i, name := range []string{"a", "b", "c"} {
			r := s.Spawn(Agent, name, made(func(c Context) {
				switch m := c.Message().(type) {
				case string:
					time.Sleep(time.Duration(i+1) * time.Second)
					rec.add("%s %s", name, m)
				case Stopping:
					rec.add("%s stops", name)
				}
			}), Supervision{})
			r.Tell("message")
		}
		shutdown(t, s)
		rec.want(t, "a message", "b message", "c message", "c stops", "b stops", "a stops")
		started := made(func(Context) { t.Error("an actor started after Shutdown") })
		s.Spawn(Agent, "late", started, Supervision{}).Tell("lost")
		if err := s.Alive(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Alive after Shutdown: %v", err)
		}
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		r := s.Spawn(Agent, "a", made(func(c Context) {
			if _, ok := c.Message().(string); ok {
				time.Sleep(5 * time.Second)
			}
		}), Supervision{})
		r.Tell("block")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		shutdown(t, s)
	})
}

func TestShutdownWaitsForGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		var done atomic.Bool
		s.Spawn(Agent, "a", made(func(c Context) {
			if _, ok := c.Message().(Stopping); ok {
				c.Go(func(context.Context) any { time.Sleep(time.Second); done.Store(true); return "dropped" })
			}
		}), Supervision{})
		shutdown(t, s)
		if !done.Load() {
			t.Error("Shutdown returned before a goroutine of an actor ended")
		}
	})
}

// Actors start, fail and end from many goroutines; at the end none is left.
func TestManyStartAndStop(t *testing.T) {
	t.Parallel()
	s, metrics, _ := newTestSystem(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				parent := s.Spawn(Partition, "p", made(func(c Context) {
					switch m := c.Message().(type) {
					case Started:
						for range 3 {
							child := c.Spawn(Signal, "s", made(func(c Context) {
								switch c.Message() {
								case "boom":
									panic("boom")
								case "timer":
									c.After(time.Duration(i)*time.Microsecond, "tick")
									c.Go(func(context.Context) any { return "back" })
								}
							}), Supervision{})
							child.Tell("timer")
							child.Tell("boom")
							child.Tell("timer")
						}
					case string:
						if m == "boom" {
							panic("boom")
						}
						c.Stop(c.Self())
					}
				}), Supervision{Restarts: i % 3})
				parent.Tell("timer")
				if i%2 == 0 {
					parent.Tell("boom")
				}
				if i%5 != 0 {
					parent.Tell("end")
				}
			}
		})
	}
	wg.Wait()
	shutdown(t, s)
	for _, k := range kinds {
		stats := metrics.of(k)
		wantCount(t, string(k)+" actors running", stats.running.Load(), 0)
		wantCount(t, string(k)+" messages waiting", stats.mailbox.Load(), 0)
	}
	if n := len(s.inTransition); n != 0 {
		t.Errorf("%d actors are left in transition", n)
	}
}

func TestMetricsStartAtZero(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	want := map[string]int{}
	for _, name := range []string{
		"running", "mailbox_messages", "messages_total", "restarts_total", "dead_letters_total",
		"receive_duration_seconds",
	} {
		want["agentsignal_actor_"+name] = len(kinds)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
}

// End waits for an actor's end, or until its context ends.
func TestEndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, _ := newTestSystem(t)
		r := s.Spawn(Agent, "a", made(func(c Context) {
			if c.Message() == "work" {
				time.Sleep(time.Minute)
			}
		}), Supervision{})
		r.Tell("work")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.End(short, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while it works: %v", err)
		}
		if err := s.End(t.Context(), r); err != nil || metrics.of(Agent).running.Load() != 0 {
			t.Errorf("%v, or it still runs", err)
		}
		if err := s.End(t.Context(), Ref{}); err != nil {
			t.Errorf("zero Ref: %v", err)
		}
	})
}
