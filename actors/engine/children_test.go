package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// registered returns how many actors are registered in the library.
func registered(s *System) int {
	n := 0
	for _, bucket := range s.library.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += bucket.Count()
	}
	return n
}

func TestIdleChildrenAreDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, _ := newTestSystem(t)
		var rec record
		var children []Ref
		var mu sync.Mutex
		var contexts []context.Context
		before := registered(s)
		r := s.Spawn(Partition, "p", made(func(c Context) {
			switch c.Message().(type) {
			case Started:
				for range 1000 {
					children = append(children, c.Spawn(Signal, "s", made(func(c Context) {
						switch c.Message().(type) {
						case Started:
							mu.Lock()
							contexts = append(contexts, c.Context())
							mu.Unlock()
							c.After(time.Hour, "late")
						default:
							rec.add("child %s", text(c.Message()))
						}
					}), Supervision{}))
				}
			case Stopping, Terminated:
				rec.add("parent %s", text(c.Message()))
			case string:
				c.Stop(c.Self())
			}
		}), Supervision{Discard: true})
		synctest.Wait()
		r.Tell("end")
		synctest.Wait()
		rec.want(t, "parent Stopping")
		for _, k := range []Kind{Partition, Signal} {
			if n := metrics.of(k).running.Load(); n != 0 {
				t.Errorf("%s: %d are running", k, n)
			}
		}
		if n := registered(s); n != before {
			t.Errorf("%d actors are registered, want %d", n, before)
		}
		if n := s.timers.heap.Len(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
		if len(contexts) != 1000 {
			t.Fatalf("%d children have started", len(contexts))
		}
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				t.Fatal("the context of a child is not cancelled")
			}
		}
		children[7].Tell("after the end")
		wantCount(t, "dead letters counted", metrics.of(Signal).dead.Load(), 1)
		_, err := Ask(t.Context(), children[8], func(chan<- int) any { return "question" })
		if !errors.Is(err, ErrStopped) {
			t.Errorf("a question to a discarded actor: %v", err)
		}
	})
}

// Before a shutdown, children end with their parent as always; only the library's register is not kept.
func TestChildrenAreDiscardedBeforeAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSystem(Options{})
		var children []Ref
		r := s.Spawn(Partition, "p", made(func(c Context) {
			if _, ok := c.Message().(Started); ok {
				for range 100 {
					children = append(children, c.Spawn(Signal, "s", made(func(Context) {}), Supervision{}))
				}
			}
		}), Supervision{Discard: true})
		synctest.Wait()
		if s.Ending() {
			t.Error("the system is ending")
		}
		s.ShutdownFollows()
		if err := s.End(t.Context(), r); err != nil || !s.Ending() {
			t.Errorf("end: %v; the system is ending: %v", err, s.Ending())
		}
		if n := s.metrics.of(Signal).running.Load(); n != 0 {
			t.Errorf("%d children are running", n)
		}
		if _, err := Ask(t.Context(), children[0], func(chan<- int) any { return "question" }); !errors.Is(err, ErrStopped) {
			t.Errorf("a question to one: %v", err)
		}
		other := s.Spawn(Agent, "a", made(func(Context) {}), Supervision{}) // the others still work
		if err := s.End(t.Context(), other); err != nil {
			t.Errorf("end another actor: %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
}

// Children that are busy, or have children of their own, end in the usual way: the
// parent ends after them.
func TestBusyChildrenAreNotDiscarded(t *testing.T) {
	for _, last := range []string{"ends", "fails", "restarts", "ends while it restarts"} {
		t.Run(last, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, metrics, _ := newTestSystem(t)
				var rec record
				hold := make(chan struct{})
				var busy Ref
				incarnation := 0
				r := s.Spawn(Partition, "p", made(func(c Context) {
					switch c.Message() {
					case Started{}:
						if incarnation++; incarnation > 1 {
							rec.add("parent again")
							return
						}
						c.Spawn(Signal, "idle", made(func(Context) {}), Supervision{})
						c.Spawn(Agent, "breeder", made(func(c Context) {
							switch c.Message() {
							case Started{}:
								c.Spawn(Webhook, "grandchild", made(func(c Context) {
									if c.Message() == (Stopping{}) {
										rec.add("grandchild ends")
									}
								}), Supervision{})
							case Stopping{}:
								rec.add("breeder ends")
							}
						}), Supervision{})
						busy = c.Spawn(Signal, "busy", made(func(c Context) {
							switch c.Message() {
							case "work":
								<-hold
								if last == "fails" {
									panic("at work")
								}
							case Stopping{}:
								rec.add("busy ends")
							}
						}), Supervision{})
					case Stopping{}, Restarting{}:
						rec.add("parent %s", text(c.Message()))
					case "end":
						c.Stop(c.Self())
					case "fail":
						panic("parent")
					case "a message":
						rec.add("parent has a message")
					}
				}), Supervision{Discard: true})
				synctest.Wait()
				busy.Tell("work")
				synctest.Wait()
				want := []string{"parent Stopping", "breeder ends", "grandchild ends", "busy ends"}
				switch last {
				case "restarts", "ends while it restarts":
					want[0] = "parent Restarting"
					r.Tell("fail")
				default:
					r.Tell("end")
				}
				synctest.Wait()
				wantCount(t, "parents running while a child works", metrics.of(Partition).running.Load(), 1)
				if last == "ends while it restarts" {
					r.c.postSystem(stop)
					synctest.Wait()
				}
				r.Tell("a message")
				synctest.Wait()
				close(hold)
				synctest.Wait()
				if last == "restarts" {
					want = append(want, "parent again", "parent has a message")
				}
				rec.want(t, want...)
				left := map[bool]int64{true: 1}[last == "restarts"]
				wantCount(t, "parents running", metrics.of(Partition).running.Load(), left)
				for _, kind := range []Kind{Signal, Agent, Webhook} {
					wantCount(t, string(kind)+" actors running", metrics.of(kind).running.Load(), 0)
				}
			})
		})
	}
}

// A child of a parent that discards is supervised like any other.
func TestChildrenThatAreDiscardedAreSupervised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, _ := newTestSystem(t)
		var rec record
		var child, other Ref
		parent := s.Spawn(Partition, "p", made(func(c Context) {
			switch m := c.Message().(type) {
			case Started:
				fragile := made(func(c Context) {
					if c.Message() == "boom" {
						panic("boom")
					}
				})
				child = c.Spawn(Signal, "child", fragile, Supervision{})
				other = c.Spawn(Signal, "other", fragile, Supervision{})
			case Ref:
				c.Stop(m)
			case Terminated:
				rec.add("%s", text(m))
			}
		}), Supervision{Restarts: 2, Discard: true})
		synctest.Wait()
		parent.Tell(other)
		synctest.Wait()
		rec.want(t, "Terminated signal/other")
		for range 3 {
			child.Tell("boom")
		}
		synctest.Wait()
		rec.want(t, "Terminated signal/child")
		wantCount(t, "restarts counted", metrics.of(Signal).restarts.Load(), 2)
	})
}

// Parents end while their children get messages, ask, fail and end.
func TestDiscardWhileChildrenAreAtWork(t *testing.T) {
	s, metrics, _ := newTestSystem(t)
	for round := range 50 {
		children := make(chan Ref, 100)
		r := s.Spawn(Partition, fmt.Sprint(round), made(func(c Context) {
			switch c.Message() {
			case Started{}:
				for range cap(children) {
					select {
					case children <- c.Spawn(Signal, "s", made(func(c Context) {
						switch c.Message() {
						case 1:
							panic("one")
						case 2:
							c.Stop(c.Self())
						case 3:
							c.After(time.Microsecond, 4)
							c.Go(func(context.Context) any { return 5 })
						}
					}), Supervision{}):
					default: // of another incarnation
					}
				}
			case "fail":
				panic("parent")
			case "end":
				c.Stop(c.Self())
			}
		}), Supervision{Restarts: 1000, Discard: true})
		var telling sync.WaitGroup
		for range 4 {
			telling.Go(func() {
				for i := range 25 {
					(<-children).Tell(i % 4)
				}
			})
		}
		if round%2 == 0 {
			r.Tell("fail")
		}
		r.Tell("end")
		<-r.c.mailbox.ended()
		telling.Wait()
	}
	wantCount(t, "children running", metrics.of(Signal).running.Load(), 0)
	wantCount(t, "messages waiting", metrics.of(Signal).mailbox.Load(), 0)
}

// The goroutine of the parent handles the first message, and the parent supervises it.
func TestDiscardedChildrenStartWithinSpawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		var rec record
		starts := 0
		s.Spawn(Partition, "p", made(func(c Context) {
			if _, ok := c.Message().(Started); !ok {
				return
			}
			ref := c.Spawn(Signal, "s", made(func(c Context) {
				if _, ok := c.Message().(Started); !ok {
					rec.add("child %s", text(c.Message()))
				} else if starts++; starts == 1 {
					panic("at its start")
				}
			}), Supervision{})
			rec.add("parent: %d starts", starts)
			ref.Tell("told")
		}), Supervision{Discard: true})
		synctest.Wait()
		rec.want(t, "parent: 1 starts", "child Restarting", "child told")
		if starts != 2 {
			t.Errorf("%d starts, want another one after the panic", starts)
		}
	})
}
