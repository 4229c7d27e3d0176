package webhook

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// lane says which slots of the gate an endpoint takes.
type lane int

const (
	fastLane lane = iota
	slowLane      // endpoints that hang, or answer slowly
	lanes
)

// gateLimits are how many requests may be in flight at once.
type gateLimits struct {
	total   int // in all; of them at most a quarter in the slow lane
	account int // of one account
	host    int // to one host; of them at most half of one account
}

// gate shares the requests in flight of a process among the endpoints. It never blocks.
// An endpoint that finds no slot waits with a ticket and is notified when it has one.
// Accounts that wait are served by turns, whatever number of endpoints they have; so are
// the hosts of an account, and the accounts that wait for a host. While others wait for
// what a slot takes, its holder gives it back after one request.
//
// Endpoints of an account with the same host wait in one flow. A flow that waits is
// ready, or it is blocked at a share that is used up. As long as flows are blocked at a
// share, at least as many of its flows are ready as it has free slots: a slot given back
// wakes one, and so does a ready flow that goes without taking one.
type gate struct {
	limits gateLimits
	slow   int

	mu       sync.Mutex
	used     int // slots taken, those of the slow lane and granted ones included
	slowUsed int // of them by the slow lane
	flows    map[flowKey]*flow
	accounts map[signal.AccountID]*accountShare
	hosts    map[string]*share
	turns    [lanes]list.List // of *accountShare with flows that are ready
	turn     lane             // which lane is served first at the next grant

	// ready and slowFree are for asked: whether flows are ready, and whether the slow
	// lane has a free slot.
	ready    [lanes]atomic.Bool
	slowFree atomic.Bool
}

// share is a part of the slots: those of an account, a host, or an account at a host.
type share struct {
	limit, used int
	flows       int              // that draw on it
	blocked     [lanes]list.List // of *flow
	waiting     [lanes]atomic.Bool
}

func (s *share) full() bool { return s.used >= s.limit }

// accountShare is the share of an account.
type accountShare struct {
	share
	ready [lanes]list.List // of *flow
	place [lanes]*list.Element
}

type flowKey struct {
	account signal.AccountID
	host    string
}

// flow is what an account sends to a host.
type flow struct {
	key     flowKey
	account *accountShare
	host    *share
	own     share
	tickets int              // that belong to it, waiting or not
	waiting [lanes]list.List // of *ticket
	in      [lanes]*list.List
	place   [lanes]*list.Element // in in; nil unless tickets wait
}

// shares returns what a slot of f takes from.
func (f *flow) shares() [3]*share { return [3]*share{&f.own, f.host, &f.account.share} }

// full returns a share of f that is used up, nil if there is none.
func (f *flow) full() *share {
	for _, s := range f.shares() {
		if s.full() {
			return s
		}
	}
	return nil
}

// slot is the leave to make one request at a time.
type slot struct {
	flow *flow
	lane lane
}

// ticket is an endpoint's place at the gate. Its fields belong to the gate.
type ticket struct {
	account signal.AccountID
	granted func() // notifies the endpoint; must not block

	flow  *flow
	lane  lane
	place *list.Element // nil unless it waits
	holds bool          // a slot was granted and is not taken yet
}

func newGate(l gateLimits) *gate {
	g := &gate{limits: l, slow: max(1, l.total/4), flows: map[flowKey]*flow{},
		accounts: map[signal.AccountID]*accountShare{}, hosts: map[string]*share{}}
	g.slowFree.Store(true)
	return g
}

// enter takes a slot for requests to a host in l, or has t wait for one: then t.granted
// is called once, and enter is to be called again.
func (g *gate) enter(t *ticket, host string, l lane) (slot, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	same := t.flow != nil && t.flow.key.host == host && t.lane == l
	if same && t.holds {
		t.holds = false
		return slot{t.flow, l}, true
	}
	if same && t.place != nil {
		return slot{}, false
	}
	g.remove(t) // it waits, or has a slot, in the other lane or for another host
	g.join(t, host)
	t.lane = l
	f := t.flow
	entered := g.turns[l].Len() == 0 && g.free(l) && f.full() == nil
	if entered {
		g.take(f, l)
	} else {
		t.place = f.waiting[l].PushBack(t)
		if f.place[l] == nil {
			g.makeReady(f, l)
		}
	}
	g.grant() // what it had before may serve another
	return slot{f, l}, entered
}

// enterMore takes a further slot for an endpoint that holds one, if there is plenty:
// nobody waits for it, and a quarter of all is left for endpoints that hold none.
func (g *gate) enterMore(t *ticket, host string, l lane) (slot, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.flow == nil || t.flow.key.host != host { // it holds slots for its former host only
		g.remove(t)
		g.join(t, host)
	}
	f := t.flow
	if !g.free(l) || g.used >= g.limits.total-g.limits.total/4 || g.turns[fastLane].Len()+g.turns[slowLane].Len() > 0 {
		return slot{}, false
	}
	for _, s := range f.shares() {
		if s.full() || s.blocked[fastLane].Len()+s.blocked[slowLane].Len() > 0 {
			return slot{}, false
		}
	}
	g.take(f, l)
	return slot{f, l}, true
}

// leave gives a slot back.
func (g *gate) leave(s slot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(s.flow, s.lane)
	g.forget(s.flow)
	g.grant()
}

// withdraw takes t away from the gate. What was granted is given back.
func (g *gate) withdraw(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(t)
	g.part(t)
	g.grant()
}

// asked reports whether s is to be given back after one request.
func (g *gate) asked(s slot) bool {
	slow := s.lane == slowLane || g.slowFree.Load()
	if g.ready[fastLane].Load() || slow && g.ready[slowLane].Load() {
		return true
	}
	for _, s := range s.flow.shares() {
		if s.waiting[fastLane].Load() || slow && s.waiting[slowLane].Load() {
			return true
		}
	}
	return false
}

// inFlight returns how many slots are taken.
func (g *gate) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// For the methods below g is locked.

func (g *gate) free(l lane) bool {
	return g.used < g.limits.total && (l == fastLane || g.slowUsed < g.slow)
}

func (g *gate) take(f *flow, l lane) {
	g.count(f, l, 1)
}

func (g *gate) release(f *flow, l lane) {
	g.count(f, l, -1)
	for l := range lanes {
		g.wake(f, l)
	}
}

func (g *gate) count(f *flow, l lane, n int) {
	g.used += n
	if l == slowLane {
		g.slowUsed += n
	}
	for _, s := range f.shares() {
		s.used += n
	}
}

// remove ends the waiting of t, or gives back what it was granted.
func (g *gate) remove(t *ticket) {
	f, l := t.flow, t.lane
	if t.place != nil {
		f.waiting[l].Remove(t.place)
		t.place = nil
		if f.waiting[l].Len() == 0 {
			g.takeOut(f, l)
			g.wake(f, l)
		}
	}
	if t.holds {
		t.holds = false
		g.release(f, l)
	}
}

// join adds t to the flow of its account to a host.
func (g *gate) join(t *ticket, host string) {
	if t.flow != nil && t.flow.key.host == host {
		return
	}
	g.part(t)
	key := flowKey{t.account, host}
	f := g.flows[key]
	if f == nil {
		f = &flow{key: key, account: g.accounts[key.account], host: g.hosts[host], own: share{limit: max(1, g.limits.host/2)}}
		if f.account == nil {
			f.account = &accountShare{share: share{limit: g.limits.account}}
			g.accounts[key.account] = f.account
		}
		if f.host == nil {
			f.host = &share{limit: g.limits.host}
			g.hosts[host] = f.host
		}
		for _, s := range f.shares() {
			s.flows++
		}
		g.flows[key] = f
	}
	f.tickets++
	t.flow = f
}

// part takes t, which neither waits nor holds a slot, out of its flow.
func (g *gate) part(t *ticket) {
	if f := t.flow; f != nil {
		f.tickets--
		t.flow = nil
		g.forget(f)
	}
}

// forget drops f if nothing has to do with it any more.
func (g *gate) forget(f *flow) {
	if f.tickets > 0 || f.own.used > 0 {
		return
	}
	delete(g.flows, f.key)
	for _, s := range f.shares() {
		s.flows--
	}
	if f.account.flows == 0 {
		delete(g.accounts, f.key.account)
	}
	if f.host.flows == 0 {
		delete(g.hosts, f.key.host)
	}
}

// makeReady has f, which is in no list of l, served when it is the turn of its account.
func (g *gate) makeReady(f *flow, l lane) {
	a := f.account
	f.in[l] = &a.ready[l]
	f.place[l] = a.ready[l].PushBack(f)
	if a.place[l] == nil {
		a.place[l] = g.turns[l].PushBack(a)
	}
}

// block has f, which is in no list of l, wait until s has room.
func (g *gate) block(f *flow, l lane, s *share) {
	f.in[l] = &s.blocked[l]
	f.place[l] = s.blocked[l].PushBack(f)
	s.waiting[l].Store(true)
}

// takeOut takes f out of the list of l in which it waits.
func (g *gate) takeOut(f *flow, l lane) {
	f.in[l].Remove(f.place[l])
	f.in[l], f.place[l] = nil, nil
	for _, s := range f.shares() {
		s.waiting[l].Store(s.blocked[l].Len() > 0)
	}
	if a := f.account; a.place[l] != nil && a.ready[l].Len() == 0 {
		g.turns[l].Remove(a.place[l])
		a.place[l] = nil
	}
}

// wake makes the next flow ready that is blocked at a share of f which has room.
func (g *gate) wake(f *flow, l lane) {
	for _, s := range f.shares() {
		if !s.full() && s.blocked[l].Len() > 0 {
			next := s.blocked[l].Front().Value.(*flow)
			g.takeOut(next, l)
			g.makeReady(next, l)
		}
	}
}

// grant gives free slots to those that wait, to the lanes by turns.
func (g *gate) grant() {
	for misses := lane(0); misses < lanes; {
		l := g.turn
		g.turn = (g.turn + 1) % lanes
		if misses++; g.grantOne(l) {
			misses = 0
		}
	}
	for l := range lanes {
		g.ready[l].Store(g.turns[l].Len() > 0)
	}
	g.slowFree.Store(g.slowUsed < g.slow)
}

// grantOne gives a slot to the account whose turn it is.
func (g *gate) grantOne(l lane) bool {
	for g.free(l) && g.turns[l].Len() > 0 {
		a := g.turns[l].Front().Value.(*accountShare)
		f := a.ready[l].Front().Value.(*flow)
		g.takeOut(f, l)
		if s := f.full(); s != nil {
			g.block(f, l, s)
			g.wake(f, l)
			continue
		}
		t := f.waiting[l].Remove(f.waiting[l].Front()).(*ticket)
		t.place, t.holds = nil, true
		g.take(f, l)
		if f.waiting[l].Len() > 0 {
			g.makeReady(f, l)
		}
		if a.place[l] != nil {
			g.turns[l].MoveToBack(a.place[l])
		}
		t.granted()
		return true
	}
	return false
}
