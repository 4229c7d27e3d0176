package partition

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

func TestOneNodeOwnsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		r.ahead = 5 * time.Minute
		begun := time.Now()
		a := startNode(t, r, "a", nil)
		if err := a.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			time.Sleep(time.Second)
			wantEqual(t, "owners", map[string]int{"a": 16}, r.owns())
		}
		wantOwned(t, "after a minute", map[*node]int{a: 16})
		for p, epoch := range r.now().epoch {
			if epoch != 1 {
				t.Errorf("partition %d is at epoch %d: it was taken more than once", p, epoch)
			}
		}
		for _, h := range a.Holdings() { // by Redis' clock
			if after := h.Since.Sub(begun); after < r.ahead || after > r.ahead+time.Second {
				t.Errorf("partition %d is owned %s after the start, by a clock that is %s ahead", h.Partition, after, r.ahead)
			}
		}
		a.stop(t)
		wantEqual(t, "owners after the node left", map[string]int{}, r.owns())
		wantOwned(t, "after it left", map[*node]int{a: 0})
	})
}

func TestSecondNodeTakesItsShareAndHandsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		var log strings.Builder
		a := startNode(t, r, "a", func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		time.Sleep(time.Minute)
		b := startNode(t, r, "b", nil)
		time.Sleep(time.Second)
		synctest.Wait()
		owns := r.owns()
		if owns["a"] != 8 || owns["b"] != 8 {
			t.Fatalf("owners a second after b joined: %v", owns)
		}
		wantOwned(t, "with two nodes", map[*node]int{a: owns["a"], b: owns["b"]})
		if a.Wanted() != owns["a"] || b.Wanted() != owns["b"] {
			t.Errorf("wanted %d and %d, owned %v", a.Wanted(), b.Wanted(), owns)
		}
		b.stop(t)
		time.Sleep(time.Second)
		synctest.Wait()
		wantEqual(t, "owners a second after b left", map[string]int{"a": 16}, r.owns())
		var live []string // each change once
		for line := range strings.Lines(log.String()) {
			if _, number, ok := strings.Cut(line, `msg="live nodes" component=partition nodes=`); ok {
				live = append(live, strings.TrimSpace(number))
			}
		}
		wantEqual(t, "live nodes in the log", []string{"1", "2", "1"}, live)
	})
}

// The reply to an announcement, given before an assignment was stored, may be handled after it.
func TestAnEarlierReplyDoesNotUndoAnAssignment(t *testing.T) {
	for late := range 8 {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis(16)
				a := startNode(t, r, "a", func(o *Options) {
					l := o.Tail.(*link)
					l.assignTakes = 310 * time.Millisecond
					l.announceReplyTakes = time.Duration(late) * 30 * time.Millisecond
				})
				b := startNode(t, r, "b", nil)
				time.Sleep(time.Minute)
				before, epochs := r.owners(), r.now().epoch
				b.link.cut(true)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				wantOwned(t, "after b has died", map[*node]int{a: 16})
				for p, epoch := range r.now().epoch {
					taken := int64(0)
					if before[p] == "b" {
						taken = 1
					}
					if epoch-epochs[p] != taken {
						t.Errorf("partition %d of %s was taken %d times", p, before[p], epoch-epochs[p])
					}
				}
			})
		})
	}
}

// A Redis that has lost an assignment has a lower version, which counts.
func TestALostAssignmentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		a, b := startNode(t, r, "a", nil), startNode(t, r, "b", nil)
		time.Sleep(time.Minute)
		wantOwned(t, "before the loss", map[*node]int{a: 8, b: 8})
		r.set(func() {
			lost := cluster.Assignment{Version: 1, Nodes: []string{"a", "b"}, Owners: slices.Repeat([]string{"b"}, 16)}
			r.assignment = lost
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantOwned(t, "with the former assignment", map[*node]int{a: 0, b: 16})
	})
}

// A node that leaves returns its leases before anything else of its process ends.
func TestANodeThatLeavesHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		a, b := startNode(t, r, "a", nil), startNode(t, r, "b", nil)
		time.Sleep(time.Minute)
		if n := b.Owned(); n == 0 || n == 16 {
			t.Fatalf("b owns %d partitions", n)
		}
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := b.Owned(); n != 0 {
			t.Errorf("b has left and owns %d partitions", n)
		}
		if _, ok := r.owns()["b"]; ok {
			t.Error("b has left and holds leases")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantEqual(t, "owners a second after b left", map[string]int{"a": 16}, r.owns())
		wantOwned(t, "after b left", map[*node]int{a: 16, b: 0})
		b.Publish(0, []signal.Event{{}}) // later events are dropped
	})
}

// slowTenant has a child that takes an hour to end, as with very many signals.
type slowTenant struct{}

func (slowTenant) Start(c engine.Context, _ ownership.Owned) ownership.Follower {
	c.Spawn(engine.Other, "slow", func() engine.Actor { return slowTenant{} }, engine.Supervision{})
	return slowTenant{}
}

func (slowTenant) Follow([]signal.Event) {}

func (slowTenant) Receive(c engine.Context) {
	if c.Message() == (engine.Stopping{}) {
		time.Sleep(time.Hour)
	}
}

// All leases are given back at once with the newest positions, and nothing that ends slowly delays it.
func TestLeasesAreGivenBackBeforeActorsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		a := startNode(t, r, "a", func(o *Options) { o.Tenants = []ownership.Tenant{slowTenant{}} })
		b := startNode(t, r, "b", nil)
		time.Sleep(time.Minute)
		wantOwned(t, "before a leaves", map[*node]int{a: 8, b: 8})
		last := map[int]signal.Position{}
		for p, owner := range r.owners() {
			if owner == "a" {
				e := r.append(p, "acc_1", signal.SignalCreated)
				a.Publish(p, []signal.Event{e})
				last[p] = e.Position
			}
		}
		time.Sleep(10 * time.Millisecond) // they are handled, and their positions are not stored yet
		releases := r.now().releases
		left, ended := time.Now(), make(chan error, 1)
		go func() { ended <- a.Leave(context.Background()) }()
		time.Sleep(100 * time.Millisecond)
		if n := r.owns()["a"]; n != 0 || a.Owned() != 0 {
			t.Errorf("a holds %d leases and believes that it owns %d partitions", n, a.Owned())
		}
		got := r.now()
		if n := got.releases - releases; n != 1 {
			t.Errorf("the leases were given back by %d calls", n)
		}
		for p, at := range last {
			if got.position[p] != at {
				t.Errorf("the position of partition %d is %v, and its events are handled up to %v", p, got.position[p], at)
			}
		}
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		wantEqual(t, "owners after a second", map[string]int{"b": 16}, r.owns())
		if err := <-ended; err != nil || time.Since(left) < time.Hour {
			t.Errorf("Leave returned after %v: %v", time.Since(left), err)
		}
	})
}

// Handing over is not undone by what was under way, whenever it comes, and may be asked for again.
func TestANodeHandsOverAtAnyMoment(t *testing.T) {
	for at := range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeRedis(8)
			b := startNode(t, r, "b", nil)
			time.Sleep(time.Minute)
			a := startNode(t, r, "a", func(o *Options) {
				l := o.Tail.(*link)
				l.announceTakes, l.announceReplyTakes = 20*time.Millisecond, 20*time.Millisecond
				l.assignTakes, l.takeTakes, l.leaseReplyTakes = 30*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
			})
			time.Sleep(time.Duration(at) * 17 * time.Millisecond)
			for range 2 {
				if err := a.HandOver(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			wantEqual(t, fmt.Sprintf("owners after a left at step %d", at), map[string]int{"b": 8}, r.owns())
			time.Sleep(time.Minute)
			synctest.Wait()
			wantOwned(t, "later", map[*node]int{a: 0, b: 8})
			a.stop(t)
			if err := a.HandOver(t.Context()); err != nil {
				t.Errorf("handing over after the end: %v", err)
			}
		})
	}
}

// TestANodeHasLeftWhenItHasHandedOver: an announcement that is under way meanwhile does not make others
// count it as alive.
func TestANodeHasLeftWhenItHasHandedOver(t *testing.T) {
	for at := range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeRedis(4)
			a := startNode(t, r, "a", func(o *Options) {
				l := o.Tail.(*link)
				l.announceTakes, l.announceReplyTakes = 200*time.Millisecond, 50*time.Millisecond
			})
			time.Sleep(10*time.Second + time.Duration(at)*15*time.Millisecond)
			if err := a.HandOver(t.Context()); err != nil {
				t.Fatal(err)
			}
			for after := range 50 {
				r.set(func() {
					if len(r.live) != 0 {
						t.Fatalf("step %d: %d ms after it left, it is announced", at, 10*after)
					}
				})
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// The leases of a node are renewed together, however many there are.
func TestLeasesAreRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(64)
		a := startNode(t, r, "a", nil)
		time.Sleep(time.Minute)
		wantOwned(t, "after a minute", map[*node]int{a: 64})
		if n := r.now().renewals; n < 35 || n > 37 {
			t.Errorf("%d calls renewed leases of 5 s in a minute, want one each third of a lease", n)
		}
	})
}

// The tail of a node follows the partitions that the node owns, and no others.
func TestOwnedPartitionsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		a := startNode(t, r, "a", nil)
		time.Sleep(time.Minute)
		b := startNode(t, r, "b", nil)
		check := func(n *node, owned int) {
			t.Helper()
			n.link.mu.Lock()
			defer n.link.mu.Unlock()
			followed := 0
			for p, count := range n.link.follows {
				if followed += count; count < 0 || count > 1 {
					t.Errorf("partition %d is followed %d times", p, count)
				}
			}
			if followed != owned {
				t.Errorf("%d partitions are followed and %d are owned", followed, owned)
			}
		}
		time.Sleep(time.Minute)
		check(a, 8)
		check(b, 8)
		b.link.cut(true) // its leases end
		time.Sleep(time.Minute)
		synctest.Wait()
		check(a, 16)
		check(b, 0)
		b.link.cut(false)
	})
}

// A node that is cut off owns nothing longer than its lease, and the other node owns all
// partitions within lease + 2 s.
func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		a, b := startNode(t, r, "a", nil), startNode(t, r, "b", nil)
		time.Sleep(10*time.Second + 137*time.Millisecond)
		before := r.owners()
		epochs := map[int]int64{}
		for p, e := range r.now().epoch {
			epochs[p] = e
		}
		b.link.cut(true)
		cut := time.Now()
		for b.Owned() > 0 {
			if time.Since(cut) > 5*time.Second {
				t.Fatal("a node that cannot renew owns partitions longer than its lease")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := r.owns()["b"]; n > 0 && a.Owned()+n > 16 {
			t.Errorf("a owns %d partitions while b still has %d leases", a.Owned(), n)
		}
		for a.Owned() < 16 {
			if time.Since(cut) > 7*time.Second {
				t.Fatalf("after %v a owns %d partitions", time.Since(cut), a.Owned())
			}
			time.Sleep(10 * time.Millisecond)
		}
		for p, owner := range before {
			old := epochs[p]
			if owner == "a" {
				if r.now().epoch[p] != old {
					t.Errorf("partition %d of a went from epoch %d to %d", p, old, r.now().epoch[p])
				}
				continue
			}
			b.link.cut(false)
			err := b.link.StoreOwnerPosition(t.Context(), p, old, signal.Position{MS: 1})
			if !lost(err) {
				t.Errorf("a write of the former owner of partition %d: %v", p, err)
			}
			b.link.cut(true)
		}
		// It is connected again and gets as many partitions, which may be others.
		b.link.cut(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantOwned(t, "after b came back", map[*node]int{a: 8, b: 8})
	})
}

func TestRestartedNodeTakesItsLeasesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		killed := startNode(t, r, "a", nil)
		time.Sleep(10 * time.Second)
		killed.link.cut(true) // as if killed: it sends nothing more
		restarted := startNode(t, r, "a", nil)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		wantOwned(t, "after 100 ms", map[*node]int{restarted: 16})
		for p, epoch := range r.now().epoch {
			if epoch != 2 {
				t.Errorf("partition %d is at epoch %d, want 2", p, epoch)
			}
		}
	})
}

func TestOutageOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(16)
		a, b := startNode(t, r, "a", nil), startNode(t, r, "b", nil)
		time.Sleep(10 * time.Second)
		before, epochs := r.owners(), r.now().epoch
		a.link.cut(true)
		b.link.cut(true)
		time.Sleep(3 * time.Second)
		if a.Owned()+b.Owned() != 16 {
			t.Errorf("after 3 s %d partitions are owned: the leases have not run out", a.Owned()+b.Owned())
		}
		time.Sleep(2 * time.Second)
		wantOwned(t, "after 5 s", map[*node]int{a: 0, b: 0})
		time.Sleep(time.Hour)
		a.link.cut(false)
		b.link.cut(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantEqual(t, "owners after the outage", before, r.owners())
		if a.Owned()+b.Owned() != 16 {
			t.Errorf("the nodes believe that they own %d and %d", a.Owned(), b.Owned())
		}
		for p, epoch := range r.now().epoch {
			if epoch != epochs[p]+1 {
				t.Errorf("partition %d went from epoch %d to %d: the node that came back first took it from the other",
					p, epochs[p], epoch)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.sys.Alive(ctx); err != nil {
			t.Errorf("Alive after the outage: %v", err)
		}
	})
}

// Whatever happens to the links, no two nodes hold a partition at the same time, and
// finally each has one owner.
func TestLeasesUnderTrouble(t *testing.T) {
	for seed := range 5 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis(8)
				var nodes []*node
				for i := range 3 {
					nodes = append(nodes, startNode(t, r, fmt.Sprint("node", i), nil))
				}
				for step := range 100 {
					time.Sleep(time.Duration(50+(step*(seed+3)*7919)%1900) * time.Millisecond)
					nodes[(step+seed)%3].link.cut((step*(seed+1))%4 < 2)
					sum := 0
					for _, n := range nodes {
						sum += n.Owned()
					}
					if sum > 8 {
						t.Fatalf("step %d: %d owners of 8 partitions", step, sum)
					}
				}
				for _, n := range nodes {
					n.link.cut(false)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				sum := 0
				for _, n := range nodes {
					sum += n.Owned()
					if n.Owned() != n.Wanted() {
						t.Errorf("%s owns %d partitions, wants %d", n.node, n.Owned(), n.Wanted())
					}
				}
				if sum != 8 || len(r.owners()) != 8 {
					t.Errorf("%d owners, leases %v", sum, r.owners())
				}
			})
		})
	}
}

// Redis counts a lease from the request. An owner that counted from the reply would
// continue after another node may have taken the partition.
func TestLeaseLastsFromTheRequest(t *testing.T) {
	for name, last := range map[string]time.Duration{"taken": 1200 * time.Millisecond, "renewed": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis(1)
				a := startNode(t, r, "a", func(o *Options) { o.Tail.(*link).leaseReplyTakes = time.Second })
				time.Sleep(last)
				wantOwned(t, "before the link is cut", map[*node]int{a: 1})
				a.link.cut(true)
				var until time.Time
				r.set(func() { until = r.owner[0].until })
				time.Sleep(time.Until(until))
				synctest.Wait()
				wantOwned(t, "when the lease has run out", map[*node]int{a: 0})
			})
		})
	}
}

func TestRefusedWriteEndsTheOwnership(t *testing.T) {
	for name, c := range map[string]struct {
		event   signal.EventType
		refusal error
	}{
		"position":                {signal.SignalCreated, errNotOwner},
		"effect":                  {signal.AccountDeleted, errNotOwner},
		"duty":                    {"", errNotOwner},
		"position beyond the log": {signal.SignalCreated, signal.ErrRolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			event := c.event
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis(1)
				a := startNode(t, r, "a", func(o *Options) {
					if event == "" {
						o.Trimmer, o.TrimEvery = o.Tail.(*link), 200*time.Millisecond
					}
				})
				time.Sleep(time.Second)
				r.set(func() { r.refuse = c.refusal })
				if event != "" {
					r.append(0, "acc_1", event)
					a.Publish(0, r.now().logs[0])
				}
				time.Sleep(300 * time.Millisecond)
				if event == "" {
					time.Sleep(rest)
				}
				synctest.Wait()
				epoch := r.now().epoch[0]
				r.set(func() { r.refuse = nil })
				if epoch == 1 && a.Owned() == 1 {
					t.Error("the owner continues after a fenced write was refused")
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				wantOwned(t, "afterwards", map[*node]int{a: 1})
				if r.now().epoch[0] < 2 {
					t.Errorf("epoch %d: the lease was not taken again", r.now().epoch[0])
				}
			})
		})
	}
}

// An owner whose renewal is refused stops immediately: another node may already own the
// partition, although the lease has not expired by the former owner's clock.
func TestRefusedRenewalEndsTheOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		a := startNode(t, r, "a", nil)
		time.Sleep(100 * time.Millisecond)
		wantOwned(t, "at the start", map[*node]int{a: 1})
		r.set(func() { r.owner[0], r.epoch[0] = lease{"b", 2, time.Now().Add(time.Minute)}, 2 })
		time.Sleep(a.renewEvery)
		synctest.Wait()
		wantOwned(t, "after the refused renewal", map[*node]int{a: 0})
	})
}

// clumsy panics at events while it is armed, after a last act.
type clumsy struct {
	armed *atomic.Bool
	last  func(ownership.Owned)
	owned ownership.Owned
}

func (c clumsy) Start(_ engine.Context, owned ownership.Owned) ownership.Follower {
	c.owned = owned
	return c
}

func (c clumsy) Follow([]signal.Event) {
	if c.armed.Swap(false) {
		c.last(c.owned)
		panic("clumsy")
	}
}

// What was sent to an owner before it panicked does not concern it after its restart: the refusal to
// renew its former lease, events, or that its former epoch has ended.
func TestARestartedOwnerKeepsItsNewLease(t *testing.T) {
	for name, last := range map[string]func(*node, ownership.Owned){
		"renewal":    func(*node, ownership.Owned) {},
		"events":     func(a *node, _ ownership.Owned) { a.publish("acc_1", signal.SignalCreated) },
		"epoch over": func(_ *node, owned ownership.Owned) { owned.GiveUp(errNotOwner) },
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 30 {
				synctest.Test(t, func(t *testing.T) {
					r, armed := newFakeRedis(1), &atomic.Bool{}
					var a *node
					a = startNode(t, r, "a", func(o *Options) {
						o.Tail.(*link).leaseReplyTakes, o.Tail.(*link).renewTakes = 300*time.Millisecond, 100*time.Millisecond
						o.Tenants = []ownership.Tenant{clumsy{armed: armed, last: func(owned ownership.Owned) { last(a, owned) }}}
					})
					time.Sleep(1500*time.Millisecond + time.Duration(at)*40*time.Millisecond)
					armed.Store(true)
					a.publish("acc_1", signal.SignalCreated)
					time.Sleep(5 * time.Second)
					if epoch := r.now().epoch[0]; epoch != 2 || a.Owned() != 1 || armed.Load() {
						t.Errorf("step %d: epoch %d, want 2; %d partitions are owned", at, epoch, a.Owned())
					}
				})
			}
		})
	}
}

// A node that stops while it is being granted leases keeps none of them.
func TestLeaseGrantedAtTheEndIsReturned(t *testing.T) {
	for at := range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeRedis(4)
			a := startNode(t, r, "a", func(o *Options) { o.Tail.(*link).takeTakes = 10 * time.Millisecond })
			time.Sleep(time.Duration(at/2) * time.Millisecond)
			if at%2 == 0 {
				synctest.Wait()
			}
			a.stop(t)
			if got := r.owners(); len(got) != 0 {
				t.Errorf("stopped after %d ms it keeps %v", at/2, got)
			}
		})
	}
}

// An announcement in progress when the node leaves does not make it alive again.
func TestLateAnnouncementIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(4)
		a := startNode(t, r, "a", func(o *Options) { o.Tail.(*link).announceTakes = 400 * time.Millisecond })
		time.Sleep(10*time.Second + 50*time.Millisecond)
		a.stop(t)
		if n := len(r.live); n != 0 {
			t.Errorf("%d nodes are announced after the only one left", n)
		}
	})
}

func TestSingleNodeRefusesASecondOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(4)
		singleNode := func(o *Options) { o.SingleNode = true }
		a := startNode(t, r, "a", singleNode)
		time.Sleep(time.Second)
		b := startNode(t, r, "b", singleNode)
		start := time.Now()
		if err := b.Join(t.Context()); signal.KindOf(err) != signal.KindConflict {
			t.Errorf("Join of a second node: %v, want a conflict", err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 10*time.Second {
			t.Errorf("refused after %v: a killed node's announcement lasts 5 s", took)
		}
		wantOwned(t, "with the second refused", map[*node]int{a: 4, b: 0})

		b.stop(t)

		// A killed node whose id is lost does not keep its successor from starting.
		a.link.cut(true)
		c := startNode(t, r, "c", singleNode)
		if err := c.Join(t.Context()); err != nil {
			t.Errorf("Join after the first was killed: %v", err)
		}
	})
}

// TestANodeIsExpelled with its next announcement when another process has its id, or Redis another
// installation.
func TestANodeIsExpelled(t *testing.T) {
	for code, change := range map[string]func(r *fakeRedis){
		cluster.CodeOtherProcess:      func(r *fakeRedis) { r.copied = "a" },
		cluster.CodeOtherPartitions:   func(r *fakeRedis) { r.moved = conflict(cluster.CodeOtherPartitions, "other keys") },
		cluster.CodeOtherInstallation: func(r *fakeRedis) { r.moved = conflict(cluster.CodeOtherInstallation, "other data") },
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis(4)
				a := startNode(t, r, "a", func(*Options) {})
				time.Sleep(time.Second)
				wantOwned(t, "before", map[*node]int{a: 4})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := a.Stay(ctx); err != nil {
					t.Errorf("an only process may not stay: %v", err)
				}
				r.set(func() { change(r) })
				began := time.Now()
				err := a.Stay(t.Context())
				if took := time.Since(began); signal.CodeOf(err) != code || took > time.Second {
					t.Errorf("expelled after %s with %v", took, err)
				}
				time.Sleep(time.Second)
				wantOwned(t, "afterwards", map[*node]int{a: 0})
			})
		})
	}
}

func TestJoinWaitsForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(4)
		a := startNode(t, r, "a", func(o *Options) { o.Tail.(*link).cut(true) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Join(ctx); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("Join without Redis: %v", err)
		}
		a.link.cut(false)
		if err := a.Join(t.Context()); err != nil {
			t.Errorf("Join with Redis back: %v", err)
		}
	})
}

// When the log is rolled back, the owner takes its lease again: it has positions that the
// log has lost, and later events may have lower positions.
func TestAnOwnerStartsAgainAfterARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := startOne(t)
		for i := range 10 {
			a.publish(name(i), signal.AccountDeleted)
		}
		time.Sleep(time.Second)
		epoch := r.now().epoch[0]
		r.set(func() {
			log := r.logs[0][:5]
			last := log[4].Position
			r.position[0] = last
			next := signal.Event{Account: name(100), Type: signal.AccountDeleted, Position: last.Plus(1)}
			r.logs[0] = append(log, next)
		})
		for range 3 { // several callers may notice it
			a.RolledBack(0)
		}
		time.Sleep(time.Second)
		if got := r.now().epoch[0]; got != epoch+1 {
			t.Errorf("epoch %d after %d, want the next", got, epoch)
		}
		if !slices.Contains(r.now().erased[0], name(100)) {
			t.Errorf("effects %v, want that of the event after the loss", r.now().erased[0])
		}
		if n := a.Owned(); n != 1 {
			t.Errorf("%d partitions are owned", n)
		}
		a.RolledBack(0)
		synctest.Wait()
		a.RolledBack(0) // while the partition has no owner
	})
}
