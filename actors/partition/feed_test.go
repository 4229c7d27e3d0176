package partition

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func accounts(from, to int) []signal.AccountID {
	var list []signal.AccountID
	for i := from; i < to; i++ {
		list = append(list, name(i))
	}
	return list
}

// erasedOf returns the effects of events, without repetitions.
func (r *fakeRedis) erasedOf(p int) []signal.AccountID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []signal.AccountID
	for _, a := range r.erased[p] {
		if !slices.Contains(got, a) {
			got = append(got, a)
		}
	}
	return got
}

func TestFeedReadsTheLogAndThenTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		r.readLimit = 7
		for i := range 50 {
			r.append(0, name(i), signal.AccountDeleted)
		}
		r.position[0] = r.logs[0][9].Position // ten had their effect under an earlier owner
		a := startNode(t, r, "a", nil)
		time.Sleep(time.Second)
		wantEqual(t, "effects on take-over", accounts(10, 50), r.now().erased[0])
		for i := 50; i < 80; i++ {
			a.publish(name(i), signal.AccountDeleted)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		wantEqual(t, "effects live", accounts(10, 80), r.now().erased[0])
		time.Sleep(time.Second)
		wantEqual(t, "stored position", r.now().logs[0][79].Position, r.now().position[0])
		if r.now().toErase[0] != 0 {
			t.Errorf("%d steps of erasing are left", r.now().toErase[0])
		}
	})
}

func TestPositionIsStoredInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := startOne(t)
		begin := time.Now()
		for i := range 10_000 {
			a.publish(name(i), signal.SignalCreated)
			time.Sleep(time.Millisecond)
		}
		if r.now().stores < 30 || r.now().stores > 60 {
			t.Errorf("the position was stored %d times in %v, want about 40", r.now().stores, time.Since(begin))
		}
		lag := r.now().logs[0][len(r.now().logs[0])-1].Position.MS - r.now().position[0].MS
		if lag > 300 {
			t.Errorf("the stored position is %d ms before the last event", lag)
		}
		last := a.publish("acc_last", signal.SignalCreated)
		synctest.Wait()
		a.stop(t)
		wantEqual(t, "stored position", last.Position, r.now().position[0])
	})
}

// A position that could not be stored is stored when Redis is back, even without new
// events: trimming and a successor use it.
func TestPositionIsStoredAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := startOne(t)
		e := a.publish(name(1), signal.SignalCreated)
		synctest.Wait()
		a.link.cut(true)
		time.Sleep(storeEvery + 1100*time.Millisecond) // the client notices after a second
		synctest.Wait()
		if got := r.now().position[0]; got == e.Position {
			t.Fatalf("position %v was stored over a link that is cut", got)
		}
		a.link.cut(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantEqual(t, "stored position", e.Position, r.now().position[0])
	})
}

func TestOverflowAndGapAreReadFromTheLog(t *testing.T) {
	for name, lose := range map[string]func(a *node, events []signal.Event){
		"the tail is too fast": func(a *node, events []signal.Event) {
			for b := range slices.Chunk(events, 100) {
				a.Publish(0, b)
			}
		},
		"the tail has a gap":  func(a *node, events []signal.Event) { a.Gap(0); a.Publish(0, events[len(events)-1:]) },
		"the tail is silent":  func(a *node, events []signal.Event) {},
		"another's partition": func(a *node, events []signal.Event) { a.Publish(1, events) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis(2)
				a := startNode(t, r, "a", nil)
				time.Sleep(time.Second)
				var events []signal.Event
				for i := range maxInbox + 500 {
					typ := signal.SignalCreated
					if i%1000 == 0 {
						typ = signal.AccountDeleted
					}
					events = append(events, r.append(0, accounts(i, i+1)[0], typ))
				}
				lose(a, events)
				time.Sleep(5 * time.Second)
				var want []signal.AccountID
				for i := 0; i < maxInbox+500; i += 1000 {
					want = append(want, accounts(i, i+1)[0])
				}
				wantEqual(t, "effects", want, r.now().erased[0])
			})
		})
	}
}

// The feed begins only when the tail misses no later events.
func TestFeedWaitsForTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		a := startNode(t, r, "a", func(o *Options) { o.Tail.(*link).detached = true })
		r.append(0, name(0), signal.AccountDeleted)
		time.Sleep(10 * time.Second)
		if len(r.now().erased[0]) != 0 {
			t.Error("events had effects before the tail was attached")
		}
		wantOwned(t, "meanwhile", map[*node]int{a: 1})
		a.link.mu.Lock()
		a.link.detached = false
		a.link.mu.Unlock()
		time.Sleep(time.Second)
		wantEqual(t, "effects", accounts(0, 1), r.now().erased[0])
	})
}

func TestEffectIsRetriedUntilItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := startOne(t)
		r.set(func() { r.undone = signal.Unavailable(errors.New("try again")) })
		for i := range 5 {
			a.publish(name(i), signal.AccountDeleted)
		}
		time.Sleep(4 * time.Second)
		if !r.now().position[0].IsZero() {
			t.Errorf("position %v is stored without the effect", r.now().position[0])
		}
		r.set(func() { r.undone = nil })
		time.Sleep(time.Second)
		wantEqual(t, "effects", accounts(0, 5), r.now().erased[0])
		wantEqual(t, "stored position", r.now().logs[0][4].Position, r.now().position[0])
	})
}

// The successor handles events whose effects were not stored when a node left.
func TestEventsWithoutEffectAreLeftToTheSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		r.undone = signal.Unavailable(errors.New("try again"))
		a := startNode(t, r, "a", nil)
		time.Sleep(time.Second)
		a.publish(name(0), signal.AccountDeleted)
		time.Sleep(time.Second)
		a.stop(t)
		r.set(func() { r.undone = nil })
		startNode(t, r, "b", nil)
		time.Sleep(time.Second)
		wantEqual(t, "effects", accounts(0, 1), r.now().erased[0])
	})
}

// Events come at any time, two nodes own in turn, links break, tails lag: each event has
// its effect at least once, in order.
func TestEveryEventHasItsEffect(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newFakeRedis(1)
			nodes := []*node{startNode(t, r, "a", nil), startNode(t, r, "b", nil)}
			tails := []int{0, 0} // what each node's tail has published
			const total = 300
			for i := range total {
				r.append(0, name(i), signal.AccountDeleted)
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
				for j, n := range nodes {
					if random.IntN(3) > 0 {
						n.Publish(0, slices.Clone(r.now().logs[0][tails[j]:]))
						tails[j] = len(r.now().logs[0])
					}
					if random.IntN(40) == 0 {
						n.link.cut(true)
					} else if random.IntN(10) == 0 {
						n.link.cut(false)
					}
					if random.IntN(50) == 0 {
						n.Gap(0)
					}
				}
			}
			for _, n := range nodes {
				n.link.cut(false)
			}
			time.Sleep(20 * time.Second)
			if d := cmp.Diff(accounts(0, total), r.erasedOf(0)); d != "" {
				t.Errorf("seed %d: effects in order of their first time (-want +got):\n%s", seed, d)
			}
			if got, want := r.now().position[0], r.now().logs[0][total-1].Position; got != want {
				t.Errorf("seed %d: stored position %v, want %v", seed, got, want)
			}
		})
	}
}

func TestOverdueRunsAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		at := time.Now().Add(20 * time.Second)
		for i := range 250 {
			due := signal.RunDue{Run: signal.NewRunID(), Agent: "trading", Account: name(i), At: at}
			r.due[0] = append(r.due[0], due)
		}
		later := signal.RunDue{Run: "run_later", Agent: "trading", Account: name(1), At: at.Add(time.Hour)}
		r.due[0] = append(r.due[0], later)
		first := r.now().due[0][0]
		startNode(t, r, "a", nil)
		time.Sleep(20 * time.Second)
		if len(r.now().logs[0]) != 0 {
			t.Errorf("%d runs were ended before they were due", len(r.now().logs[0]))
		}
		time.Sleep(10 * time.Second)
		if len(r.now().logs[0]) != 250 || len(r.now().due[0]) != 1 {
			t.Fatalf("%d of 250 runs were ended, %d are left", len(r.now().logs[0]), len(r.now().due[0]))
		}
		e := r.now().logs[0][0]
		if e.Type != signal.AgentFailed || e.Run != first.Run || e.Account != first.Account ||
			e.Agent != "trading" || e.ID == "" {
			t.Errorf("event %+v", e)
		}
		want := `{"agent_id":"trading","run_id":"` + string(first.Run) +
			`","error_code":"CANCELLED","message":"the process that ran the agent has ended","retryable":true}`
		wantEqual(t, "payload", want, string(e.Data))
	})
}

// Neither a run that its own process ends at the same moment nor an outage stops the
// sweep.
func TestSweepContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		at := time.Now()
		r.due[0] = []signal.RunDue{{Run: "run_1", Agent: "seo", Account: "acc_1", At: at}}
		ended := overdueTwice{&link{fakeRedis: r}}
		n := &node{link: ended.link, sys: newSystem()}
		n.Partitions = New(n.sys, "a", ended, ended, Options{})
		defer n.stop(t)
		time.Sleep(10 * time.Second)
		if len(r.now().logs[0]) != 1 {
			t.Fatalf("%d ends of one run", len(r.now().logs[0]))
		}
		wantOwned(t, "after a refused end", map[*node]int{n: 1})
		if r.now().epoch[0] != 1 {
			t.Errorf("epoch %d: the ownership ended for a run that had ended", r.now().epoch[0])
		}
		n.link.cut(true)
		time.Sleep(time.Minute)
		r.set(func() { r.due[0] = []signal.RunDue{{Run: "run_2", Agent: "seo", Account: "acc_1", At: time.Now()}} })
		n.link.cut(false)
		time.Sleep(20 * time.Second)
		if len(r.now().logs[0]) != 2 {
			t.Errorf("%d ends of two runs after the outage", len(r.now().logs[0]))
		}
	})
}

func TestOwnerTrims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(2)
		l := &link{fakeRedis: r}
		startNode(t, r, "a", func(o *Options) { o.Trimmer = l })
		for range 61 {
			r.append(0, "acc_1", signal.SignalCreated)
			r.append(1, "acc_2", signal.SignalCreated)
			time.Sleep(time.Second)
		}
		if r.now().trims < 12 || r.now().trims > 14 {
			t.Errorf("%d trims of 2 partitions in a minute, want about 14", r.now().trims)
		}
	})
}

// An owner makes blocks one after the other, with a pause, until there are no more to make.
func TestOwnerCompacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		a := startNode(t, r, "a", func(o *Options) { o.Compactor = o.Tail.(*link) })
		synctest.Wait()
		r.set(func() { r.uncompact = 100 })
		a.publish("acc_1", signal.SignalCreated)
		time.Sleep(11 * time.Second)
		if n := r.now().compacted; n < 40 || n > 60 {
			t.Errorf("%d blocks were made in a second, want about 50", n)
		}
		time.Sleep(2 * time.Second)
		if n := r.now().compacted; n != 100 {
			t.Errorf("%d blocks were made of 100", n)
		}
	})
}

// The duties of partitions without events cost next to nothing, until there is an event.
func TestDutiesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(64)
		a := startNode(t, r, "a", func(o *Options) { o.Trimmer = o.Tail.(*link) })
		time.Sleep(time.Minute + 30*time.Second)
		before := r.now()
		time.Sleep(10 * time.Minute)
		after := r.now()
		if n := after.trims - before.trims; n != 64*10 {
			t.Errorf("%d trims in 10 minutes", n)
		}
		if n := after.sweeps - before.sweeps; n != 64*10 {
			t.Errorf("%d sweeps in 10 minutes", n)
		}
		if looks, reads := after.looks-before.looks, after.reads-before.reads; looks < 5*60-1 || looks > 5*60+1 || reads != 0 {
			t.Errorf("the logs of silent partitions were looked at %d times and read %d times", looks, reads)
		}
		// A run begins whose process dies: its event and its record are one change.
		r.set(func() {
			r.due[0] = []signal.RunDue{{Run: "run_1", Agent: "seo", Account: "acc_1", At: time.Now().Add(20 * time.Second)}}
		})
		a.publish("acc_1", signal.AgentStarted)
		time.Sleep(11 * time.Second)
		if n := r.now().trims - after.trims; n < 1 || n > 12 {
			t.Errorf("%d trims after an event", n)
		}
		time.Sleep(15 * time.Second)
		if n := len(r.now().due[0]); n != 0 {
			t.Error("the run was not ended within a sweep of its deadline")
		}
	})
}

// An account that is deleted during the last step of erasing another one is erased, too,
// although that step did not see it.
func TestAnAccountDeletedDuringAStepIsErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis(1)
		a := startNode(t, r, "a", func(o *Options) { o.Tail.(*link).eraseReplyTakes = time.Second })
		time.Sleep(500 * time.Millisecond) // the step that finds nothing is in progress
		a.publish(name(1), signal.AccountDeleted)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.now(); len(got.erased[0]) != 1 || got.toErase[0] != 0 {
			t.Errorf("erasing of %v has begun and %d steps are left, want 1 account and 0 steps",
				got.erased[0], got.toErase[0])
		}
	})
}

// startWithWebhooks starts a node that owns its only partition.
func startWithWebhooks(t *testing.T) (*node, *fakeWebhooks, *fakeRedis) {
	r := newFakeRedis(1)
	w := &fakeWebhooks{}
	a := startNode(t, r, "a", func(o *Options) { o.Webhooks, o.Tenants = w, []ownership.Tenant{w} })
	time.Sleep(time.Second)
	return a, w, r
}

// appendMany adds events of a type for each of the accounts.
func (r *fakeRedis) appendMany(t signal.EventType, from, to int) []signal.Event {
	var events []signal.Event
	for _, account := range accounts(from, to) {
		events = append(events, r.append(0, account, t))
	}
	return events
}

func TestEventsAreRecordedBeforeThePositionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w, r := startWithWebhooks(t)
		w.set(func() { w.failing = signal.Unavailable(errors.New("try again")) })
		first := r.appendMany(signal.SignalCreated, 0, 3)
		a.Publish(0, first)
		time.Sleep(100 * time.Millisecond)
		second := r.appendMany(signal.SignalCreated, 3, 5) // appended while the first fail
		a.Publish(0, second)
		time.Sleep(2 * time.Second)
		calls, _, _ := w.seen()
		if len(calls) < 4 || len(calls) > 12 {
			t.Errorf("%d tries in two seconds", len(calls))
		}
		for i, events := range calls {
			if d := cmp.Diff(first, events); d != "" {
				t.Errorf("try %d was of other events (-want +got):\n%s", i, d)
			}
		}
		if got := r.now(); !got.position[0].IsZero() || got.stores != 0 {
			t.Errorf("position %v is stored without the deliveries", got.position[0])
		}

		w.set(func() { w.failing, w.calls = nil, nil })
		time.Sleep(2 * time.Second)
		calls, _, _ = w.seen()
		wantEqual(t, "recorded", [][]signal.Event{first, second}, calls)
		if got := r.now(); got.position[0] != second[1].Position || got.stores != 1 {
			t.Errorf("position %v, stored %d times, want %v", got.position[0], got.stores, second[1].Position)
		}
	})
}

// The position moves only as far as deliveries are stored, also when the owner ends, and
// follows them immediately, even without new events.
func TestThePositionWaitsForDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w, r := startWithWebhooks(t)
		events := r.appendMany(signal.SignalCreated, 0, 3)
		w.set(func() { w.open = events[0].Position })
		a.Publish(0, events)
		time.Sleep(10 * time.Second)
		if got := r.now(); got.position[0] != events[0].Position || got.stores != 1 {
			t.Errorf("position %v, stored %d times, want %v: two events have unsaved deliveries",
				got.position[0], got.stores, events[0].Position)
		}
		w.set(func() { w.open = events[1].Position })
		time.Sleep(2 * storeEvery)
		wantEqual(t, "stored position", events[1].Position, r.now().position[0])
		last := r.appendMany(signal.SignalCreated, 3, 4)
		a.Publish(0, last)
		w.set(func() { w.open = events[2].Position })
		time.Sleep(10 * time.Millisecond)
		a.stop(t)
		wantEqual(t, "stored position", events[2].Position, r.now().position[0])
	})
}

// For the same events effects on a deleted account come before the deliveries.
func TestAFailingRecordRepeatsOtherEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w, r := startWithWebhooks(t)
		w.set(func() { w.failing = signal.Unavailable(errors.New("try again")) })
		events := append(r.appendMany(signal.AccountDeleted, 0, 1), r.appendMany(signal.SignalCreated, 1, 2)...)
		a.Publish(0, events)
		time.Sleep(time.Second)
		if len(r.erasedOf(0)) != 1 || r.now().toErase[0] != 3 {
			t.Errorf("%v are to be erased, with %d steps left, while the events are not recorded",
				r.erasedOf(0), r.now().toErase[0])
		}
		w.set(func() { w.failing = nil })
		time.Sleep(time.Second)
		if got := r.now(); got.toErase[0] != 0 || got.position[0] != events[1].Position {
			t.Errorf("%d steps are left, position %v", got.toErase[0], got.position[0])
		}
	})
}

func TestAPartitionIsDroppedWhenItsWebhooksLoseIt(t *testing.T) {
	for name, lose := range map[string]func(a *node, w *fakeWebhooks, r *fakeRedis){
		"an actor was refused": func(_ *node, w *fakeWebhooks, _ *fakeRedis) {
			w.set(func() { w.owned.GiveUp(errNotOwner) })
		},
		"the recorder was refused": func(a *node, w *fakeWebhooks, r *fakeRedis) {
			w.set(func() { w.failing = errNotOwner })
			a.Publish(0, r.appendMany(signal.SignalCreated, 0, 1))
		},
		"erasing was refused": func(a *node, w *fakeWebhooks, r *fakeRedis) {
			w.set(func() { w.broken = errNotOwner })
			a.Publish(0, r.appendMany(signal.WebhookChanged, 0, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, w, r := startWithWebhooks(t)
				wantOwned(t, "before", map[*node]int{a: 1})
				lose(a, w, r)
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				w.set(func() { w.failing, w.broken = nil, nil })
				time.Sleep(10 * time.Second)
				wantOwned(t, "finally", map[*node]int{a: 1})
				if _, epochs, _ := w.seen(); len(epochs) < 2 || !slices.IsSorted(epochs) || epochs[0] == epochs[1] {
					t.Errorf("webhooks were started under the epochs %v", epochs)
				}
				if log := r.now().logs[0]; len(log) > 0 && r.now().position[0] != log[len(log)-1].Position {
					t.Errorf("position %v after the loss", r.now().position[0])
				}
			})
		})
	}
}

func TestRemovedWebhooksAreErasedAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w, r := startWithWebhooks(t)
		_, _, before := w.seen()
		if before != 1 {
			t.Errorf("a new owner looked %d times for removed webhooks, want once", before)
		}
		w.set(func() { w.removed = 3 })
		a.Publish(0, append(r.appendMany(signal.SignalCreated, 0, 1), r.appendMany(signal.DeliveriesChanged, 1, 2)...))
		time.Sleep(time.Minute)
		if _, _, now := w.seen(); now != before {
			t.Errorf("the owner looked %d times without a reason", now-before)
		}
		w.set(func() { w.broken = signal.Unavailable(errors.New("try again")) })
		a.Publish(0, r.appendMany(signal.WebhookChanged, 2, 3))
		time.Sleep(3 * time.Second)
		w.set(func() { w.broken = nil })
		time.Sleep(3 * time.Second)
		if w.set(func() { before = w.removed }); before != 0 {
			t.Errorf("%d steps of erasing are left", before)
		}
	})
}
