package webhook

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// lane says which slots of the gate an endpoint takes. The slow lane takes at most a
// quarter, and at least one, of the slots in all and of those of each share. So a fast
// endpoint never waits for slots that only slow ones hold, except where there is only one.
type lane int

const (
	fastLane lane = iota
	slowLane      // endpoints that hang, or answer slowly
	lanes
)

// gateLimits are how many requests may be in flight at once.
type gateLimits struct {
	total   int // in all
	account int // of one account
	host    int // to one host; of them at most half of one account
}

// gate shares the requests in flight of a process among the endpoints. It never blocks.
// An endpoint that finds no slot waits with a ticket and is notified when it has one.
// Accounts that wait are served by turns, whatever number of endpoints they have; so are
// the hosts of an account, and the accounts that wait for a host. While others wait for
// what a slot takes, its holder gives it back after one request.
//
// Endpoints of an account with the same host wait in one flow, by lanes. A flow that waits
// in a lane is ready there, or it is blocked at a share that has no free slot for the lane.
// As long as flows are blocked at a share, at least as many of its flows are ready in the
// same lane as it has free slots for the lane: a slot given back wakes one in each lane,
// and so does a ready flow that goes without taking one.
type gate struct {
	limits gateLimits

	mu       sync.Mutex
	slots    // in all
	flows    map[flowKey]*flow
	accounts map[signal.AccountID]*accountShare
	hosts    map[string]*share
	turns    [lanes]list.List // of *accountShare with flows that are ready
	turn     lane             // which lane is served first at the next grant
}

// slots counts the slots of the gate or of a share.
type slots struct {
	limit    int
	used     int // those of the slow lane and granted ones included
	slowUsed int // of them by the slow lane
	// wanted is for asked: whether a slot of a lane may serve a flow that waits here.
	wanted [lanes]atomic.Bool
}

// free reports whether there is a free slot for l.
func (s *slots) free(l lane) bool { return s.used < s.limit && (l == fastLane || s.slowFree()) }

// slowFree reports whether the slow lane has not taken its part.
func (s *slots) slowFree() bool { return s.slowUsed < max(1, s.limit/4) }

func (s *slots) count(l lane, n int) {
	s.used += n
	if l == slowLane {
		s.slowUsed += n
	}
}

// want sets wanted. waiting has the flows that wait here.
func (s *slots) want(waiting *[lanes]list.List) {
	fast, slow := waiting[fastLane].Len() > 0, waiting[slowLane].Len() > 0
	for l, now := range [lanes]bool{fastLane: fast || slow && s.slowFree(), slowLane: fast || slow} {
		if s.wanted[l].Load() != now { // asked reads it all the time
			s.wanted[l].Store(now)
		}
	}
}

// share is a part of the slots: those of an account, a host, or an account at a host.
type share struct {
	slots
	flows   int              // that draw on it
	blocked [lanes]list.List // of *flow
}

func newShare(limit int) share { return share{slots: slots{limit: limit}} }

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

// full returns a share of f without a free slot for l, nil if all have one.
func (f *flow) full(l lane) *share {
	for _, s := range f.shares() {
		if !s.free(l) {
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
	return &gate{limits: l, slots: slots{limit: l.total}, flows: map[flowKey]*flow{},
		accounts: map[signal.AccountID]*accountShare{}, hosts: map[string]*share{}}
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
	entered := g.turns[l].Len() == 0 && g.free(l) && f.full(l) == nil
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

// enterMore takes a further slot for an endpoint that holds one, if there is plenty: a
// quarter of all is left for endpoints that hold none. Then no endpoint waits that the slot
// would serve.
func (g *gate) enterMore(t *ticket, host string, l lane) (slot, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.flow == nil || t.flow.key.host != host { // it holds slots for its former host only
		g.remove(t)
		g.join(t, host)
	}
	f := t.flow
	if g.used >= g.limit-g.limit/4 || !g.free(l) || f.full(l) != nil {
		return slot{}, false
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
	f, l := s.flow, s.lane
	return g.wanted[l].Load() || f.own.wanted[l].Load() || f.host.wanted[l].Load() || f.account.wanted[l].Load()
}

// inFlight returns how many slots are taken.
func (g *gate) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// For the methods below g is locked.

func (g *gate) take(f *flow, l lane) { g.add(f, l, 1) }

func (g *gate) release(f *flow, l lane) {
	g.add(f, l, -1)
	for l := range lanes {
		g.wake(f, l)
	}
}

func (g *gate) add(f *flow, l lane, n int) {
	g.count(l, n)
	for _, s := range f.shares() {
		s.count(l, n)
		if l == slowLane { // what is wanted depends on no other count
			s.want(&s.blocked)
		}
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
		f = &flow{key: key, account: g.accounts[key.account], host: g.hosts[host], own: newShare(max(1, g.limits.host/2))}
		if f.account == nil {
			f.account = &accountShare{share: newShare(g.limits.account)}
			g.accounts[key.account] = f.account
		}
		if f.host == nil {
			s := newShare(g.limits.host)
			f.host, g.hosts[host] = &s, &s
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

// block has f, which is in no list of l, wait until s has a free slot for l.
func (g *gate) block(f *flow, l lane, s *share) {
	f.in[l] = &s.blocked[l]
	f.place[l] = s.blocked[l].PushBack(f)
	s.want(&s.blocked)
}

// takeOut takes f out of the list of l in which it waits.
func (g *gate) takeOut(f *flow, l lane) {
	f.in[l].Remove(f.place[l])
	f.in[l], f.place[l] = nil, nil
	for _, s := range f.shares() {
		s.want(&s.blocked)
	}
	if a := f.account; a.place[l] != nil && a.ready[l].Len() == 0 {
		g.turns[l].Remove(a.place[l])
		a.place[l] = nil
	}
}

// wake makes the next flow ready that is blocked at a share of f which has a free slot for l.
func (g *gate) wake(f *flow, l lane) {
	for _, s := range f.shares() {
		if s.free(l) && s.blocked[l].Len() > 0 {
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
	g.want(&g.turns)
}

// grantOne gives a slot to the account whose turn it is.
func (g *gate) grantOne(l lane) bool {
	for g.free(l) && g.turns[l].Len() > 0 {
		a := g.turns[l].Front().Value.(*accountShare)
		f := a.ready[l].Front().Value.(*flow)
		g.takeOut(f, l)
		if s := f.full(l); s != nil {
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
