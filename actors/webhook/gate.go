package webhook

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// lane says which slots of the gate an endpoint takes.
type lane int

const (
	fastLane lane = iota
	slowLane      // endpoints that hang, or answer slowly
	lanes
)

// gate shares the requests in flight of a process among the endpoints: so many slots,
// of which the slow lane gets at most a quarter. It never blocks. An endpoint that
// finds no slot waits with a ticket and is told when it has one; those that wait get
// theirs in turn. While somebody waits, whoever holds a slot gives it back after one
// request.
type gate struct {
	total, slow int

	mu       sync.Mutex
	used     int              // slots taken, those of the slow lane and granted ones included
	slowUsed int              // of them by the slow lane
	waiting  [lanes]list.List // of *ticket
	turn     lane             // who is asked first at the next grant

	// scarce says of each lane that a slot given back would serve somebody.
	scarce [lanes]atomic.Bool
}

// ticket is an endpoint's place at the gate. Its fields belong to the gate.
type ticket struct {
	granted func() // tells the endpoint; must not block

	lane  lane
	place *list.Element // nil unless it waits
	holds bool          // a slot was granted and is not taken yet
}

func newGate(total int) *gate {
	return &gate{total: total, slow: max(1, total/4)}
}

// enter takes a slot in l, or has t wait for one: then t.granted is called once, and
// enter is to be called again.
func (g *gate) enter(t *ticket, l lane) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.holds && t.lane == l {
		t.holds = false
		return true
	}
	if t.place != nil && t.lane == l {
		return false
	}
	g.remove(t) // it waits, or has a slot, in the other lane
	t.lane = l
	entered := g.waiting[l].Len() == 0 && g.free(l)
	if entered {
		g.take(l)
	} else {
		t.place = g.waiting[l].PushBack(t)
	}
	g.grant() // what it had in the other lane may serve another
	return entered
}

// enterMore takes a further slot in l for an endpoint that holds one, if there is
// plenty: nobody waits, and a quarter is left for endpoints that hold none.
func (g *gate) enterMore(l lane) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.free(l) || g.used >= g.total-g.total/4 || g.waiting[fastLane].Len()+g.waiting[slowLane].Len() > 0 {
		return false
	}
	g.take(l)
	return true
}

// leave gives a slot back.
func (g *gate) leave(l lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(l)
	g.grant()
}

// withdraw takes t away from the gate. What was granted is given back.
func (g *gate) withdraw(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(t)
	g.grant()
}

// asked says that slots of l are to be given back after one request.
func (g *gate) asked(l lane) bool { return g.scarce[l].Load() }

// inFlight returns how many slots are taken.
func (g *gate) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// For the methods below g is locked.

func (g *gate) free(l lane) bool {
	return g.used < g.total && (l == fastLane || g.slowUsed < g.slow)
}

func (g *gate) take(l lane) {
	g.used++
	if l == slowLane {
		g.slowUsed++
	}
}

func (g *gate) release(l lane) {
	g.used--
	if l == slowLane {
		g.slowUsed--
	}
}

func (g *gate) remove(t *ticket) {
	if t.place != nil {
		g.waiting[t.lane].Remove(t.place)
		t.place = nil
	}
	if t.holds {
		t.holds = false
		g.release(t.lane)
	}
}

// grant gives free slots to those that wait longest, to the lanes by turns.
func (g *gate) grant() {
	for g.grantOne() {
	}
	fast, slow := g.waiting[fastLane].Len() > 0, g.waiting[slowLane].Len() > 0
	g.scarce[fastLane].Store(fast || slow && g.slowUsed < g.slow)
	g.scarce[slowLane].Store(fast || slow)
}

func (g *gate) grantOne() bool {
	for range lanes {
		l := g.turn
		g.turn = (g.turn + 1) % lanes
		if g.waiting[l].Len() == 0 || !g.free(l) {
			continue
		}
		t := g.waiting[l].Remove(g.waiting[l].Front()).(*ticket)
		t.place, t.holds = nil, true
		g.take(l)
		t.granted()
		return true
	}
	return false
}
