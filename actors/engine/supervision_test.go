package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPanicRestartsTheActorWithoutTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, lines := newTestSystem(t)
		var rec record
		incarnation := 0
		r := s.Spawn(Agent, "a", func() Actor {
			incarnation++
			i := incarnation
			return actorFunc(func(c Context) {
				rec.add("%d %s", i, text(c.Message()))
				if c.Message() == "boom" {
					panic("broken invariant")
				}
			})
		}, Supervision{})
		r.Tell("a")
		r.Tell("boom")
		r.Tell("b")
		synctest.Wait()
		rec.want(t, "1 Started", "1 a", "1 boom", "1 Restarting", "2 Started", "2 b")
		wantCount(t, "restarts counted", metrics.of(Agent).restarts.Load(), 1)
		if got := lines.matching("actor panicked"); got != 1 {
			t.Errorf("panic logged %d times, want 1", got)
		}
		if lines.matching("engine_test.go") != 1 {
			t.Error("the log has no stack that names this file")
		}
		if err := s.Alive(t.Context()); err != nil {
			t.Errorf("Alive: %v", err)
		}
	})
}

func TestActorThatFailsTooOftenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, lines := newTestSystem(t)
		var rec record
		var child Ref
		s.Spawn(Supervisor, "parent", made(func(c Context) {
			switch m := c.Message().(type) {
			case Started:
				child = c.Spawn(Signal, "child", made(func(c Context) {
					if c.Message() == "boom" {
						panic("boom")
					}
				}), Supervision{})
			case Terminated:
				rec.add("%s %s", text(m), m.Kind)
			}
		}), Supervision{Restarts: 3, Within: time.Minute})
		synctest.Wait()
		for range 3 {
			child.Tell("boom")
		}
		time.Sleep(time.Minute) // the three failures no longer count
		for range 3 {
			child.Tell("boom")
		}
		synctest.Wait()
		rec.want(t)
		wantCount(t, "restarts counted", metrics.of(Signal).restarts.Load(), 6)
		child.Tell("boom")
		synctest.Wait()
		rec.want(t, "Terminated signal/child signal")
		child.Tell("late")
		wantCount(t, "dead letters counted", metrics.of(Signal).dead.Load(), 1)
		wantCount(t, "actors running", metrics.of(Signal).running.Load(), 0)
		if got := lines.matching("failed too often"); got != 1 {
			t.Errorf("logged %d times, want 1", got)
		}
		if err := s.Alive(t.Context()); err != nil {
			t.Errorf("Alive, though its parent was notified: %v", err)
		}
	})
}

func TestNegativeRestartsStopAtTheFirstPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, _ := newTestSystem(t)
		var rec record
		s.Spawn(Supervisor, "parent", made(func(c Context) {
			switch m := c.Message().(type) {
			case Started:
				c.Spawn(Signal, "child", made(func(Context) { panic("at once") }), Supervision{})
			case Terminated:
				rec.add("%s", text(m))
			}
		}), Supervision{Restarts: -1})
		synctest.Wait()
		rec.want(t, "Terminated signal/child")
		wantCount(t, "restarts counted", metrics.of(Signal).restarts.Load(), 0)
	})
}

func TestAliveReportsAFailedChildOfTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		s.Spawn(Supervisor, "a", made(func(Context) { panic("at Started") }), Supervision{})
		synctest.Wait()
		if err := s.Alive(t.Context()); err == nil {
			t.Error("Alive does not report an actor that failed too often")
		}
	})
}

func TestRestartStopsChildrenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestSystem(t)
		var rec record
		var child Ref
		r := s.Spawn(Partition, "p", made(func(c Context) {
			rec.add("parent %s", text(c.Message()))
			switch c.Message() {
			case Started{}:
				receive := func(c Context) { rec.add("child %s", text(c.Message())) }
				child = c.Spawn(Signal, "s", made(receive), Supervision{})
			case "boom":
				panic("boom")
			}
		}), Supervision{})
		synctest.Wait()
		rec.want(t, "parent Started", "child Started")
		first := child
		r.Tell("boom")
		synctest.Wait()
		rec.want(t, "parent boom", "parent Restarting", "child Stopping", "parent Started", "child Started")
		if first == child {
			t.Error("the child has the Ref of its predecessor")
		}
	})
}

func TestActorGetsNoMessagesWhileItWaitsForItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, _ := newTestSystem(t)
		var rec record
		hold := make(chan struct{})
		r := s.Spawn(Partition, "p", made(func(c Context) {
			rec.add("%s", text(c.Message()))
			switch c.Message() {
			case Started{}:
				c.Spawn(Signal, "s", made(func(c Context) {
					if _, ok := c.Message().(Stopping); ok {
						<-hold
					}
				}), Supervision{})
			case "end":
				c.Stop(c.Self())
			}
		}), Supervision{})
		r.Tell("end")
		synctest.Wait()
		r.Tell("late")
		synctest.Wait()
		close(hold)
		synctest.Wait()
		rec.want(t, "Started", "end", "Stopping")
		wantCount(t, "dead letters counted", metrics.of(Partition).dead.Load(), 1)
	})
}

// A child fails, or ends, just as its parent stops: it must not be restarted, and the
// parent must not wait for it.
func TestChildFailsWhileItsParentStops(t *testing.T) {
	for _, last := range []string{"boom", "end"} {
		t.Run(last, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, metrics, _ := newTestSystem(t)
				hold, holdGrandchild := make(chan struct{}), make(chan struct{})
				var child Ref
				parent := s.Spawn(Partition, "parent", made(func(c Context) {
					switch c.Message() {
					case Started{}:
						child = c.Spawn(Signal, "child", made(func(c Context) {
							switch c.Message() {
							case Started{}:
								c.Spawn(Webhook, "grandchild", made(func(c Context) {
									if _, ok := c.Message().(Stopping); ok && last == "boom" {
										<-holdGrandchild
									}
								}), Supervision{})
							case "boom":
								panic("boom")
							case "end":
								c.Stop(c.Self())
							}
						}), Supervision{})
					case "hold":
						<-hold
					}
				}), Supervision{})
				ender := s.Spawn(Supervisor, "ender", made(func(c Context) {
					if r, ok := c.Message().(Ref); ok {
						c.Stop(r)
					}
				}), Supervision{})
				parent.Tell("hold")
				synctest.Wait()
				ender.Tell(parent)
				synctest.Wait()
				child.Tell(last)
				synctest.Wait()
				close(hold)
				synctest.Wait()
				close(holdGrandchild)
				synctest.Wait()
				for _, k := range []Kind{Partition, Signal, Webhook} {
					if n := metrics.of(k).running.Load(); n != 0 {
						t.Errorf("%s: %d are running", k, n)
					}
				}
				if n := metrics.of(Signal).restarts.Load(); n != 0 {
					t.Errorf("the child was restarted %d times", n)
				}
			})
		})
	}
}

func TestPanicWhileStoppingDoesNotReviveTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics, lines := newTestSystem(t)
		r := s.Spawn(Agent, "a", made(func(c Context) {
			switch c.Message().(type) {
			case Stopping:
				panic("at the end")
			case string:
				c.Stop(c.Self())
			}
		}), Supervision{})
		r.Tell("end")
		synctest.Wait()
		wantCount(t, "actors running", metrics.of(Agent).running.Load(), 0)
		if got := lines.matching("actor panicked"); got != 1 {
			t.Errorf("panic logged %d times, want 1", got)
		}
	})
}
