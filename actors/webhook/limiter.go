package webhook

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// class decides which slots of the limiter an endpoint may take. The slow class takes at
// most a quarter, and at least one, of all slots and of those of each share. So a fast
// endpoint never waits for slots that only slow ones hold, except where there is only one.
type class int

const (
	fastClass class = iota
	slowClass       // endpoints that hang or answer slowly
	classes
)

// limits bound the requests in flight.
type limits struct {
	total   int
	account int // of one account
	host    int // to one host; one account may have half of them
}

// limiter shares the process's requests in flight among the endpoints. It never blocks. An
// endpoint that gets no slot waits as a waiter and is notified when it has one. Waiting
// accounts are served in turn, regardless of their number of endpoints; so are the hosts of
// an account, and the accounts that wait for a host. While others wait for a share of a
// slot, its holder gives it back after one request.
//
// Endpoints of an account with the same host wait in one flow, by class. A waiting flow is
// ready in a class, or blocked at a share without a free slot for the class. As long as
// flows are blocked at a share, at least as many of its flows are ready in the same class
// as it has free slots for the class: a released slot wakes one in each class, and so does
// a ready flow that leaves without taking a slot.
type limiter struct {
	limits limits

	mu       sync.Mutex
	slots    // of the process
	flows    map[flowKey]*flow
	accounts map[signal.AccountID]*accountShare
	hosts    map[string]*share
	turns    [classes]list.List // of *accountShare with ready flows
	turn     class              // which class is served first at the next grant
}

// slots counts the slots of the limiter or of a share.
type slots struct {
	limit    int
	used     int // including granted ones
	slowUsed int // by the slow class
	// wanted is whether a slot of a class may serve a flow that waits here.
	wanted [classes]atomic.Bool
}

// free reports whether there is a free slot for l.
func (s *slots) free(l class) bool { return s.used < s.limit && (l == fastClass || s.slowFree()) }

// slowFree reports whether the slow class may take another slot.
func (s *slots) slowFree() bool { return s.slowUsed < max(1, s.limit/4) }

func (s *slots) count(l class, n int) {
	s.used += n
	if l == slowClass {
		s.slowUsed += n
	}
}

// want sets wanted. waiting lists the flows that wait here.
func (s *slots) want(waiting *[classes]list.List) {
	fast, slow := waiting[fastClass].Len() > 0, waiting[slowClass].Len() > 0
	for l, now := range [classes]bool{fastClass: fast || slow && s.slowFree(), slowClass: fast || slow} {
		if s.wanted[l].Load() != now { // avoids writes, because mustYield reads it often
			s.wanted[l].Store(now)
		}
	}
}

// share is a part of the slots: those of an account, a host, or an account at a host.
type share struct {
	slots
	flows   int                // that use it
	blocked [classes]list.List // of *flow
}

func newShare(limit int) share { return share{slots: slots{limit: limit}} }

// accountShare is the share of an account.
type accountShare struct {
	share
	ready [classes]list.List // of *flow
	place [classes]*list.Element
}

type flowKey struct {
	account signal.AccountID
	host    string
}

// flow is the traffic of an account to a host.
type flow struct {
	key     flowKey
	account *accountShare
	host    *share
	own     share
	waiters int                // that belong to it, waiting or not
	waiting [classes]list.List // of *waiter
	in      [classes]*list.List
	place   [classes]*list.Element // in in; nil unless waiters wait
}

// shares returns the shares that a slot of f counts in.
func (f *flow) shares() [3]*share { return [3]*share{&f.own, f.host, &f.account.share} }

// full returns a share of f without a free slot for l, or nil.
func (f *flow) full(l class) *share {
	for _, s := range f.shares() {
		if !s.free(l) {
			return s
		}
	}
	return nil
}

// slot is the permission to make one request at a time.
type slot struct {
	flow  *flow
	class class
}

// waiter is an endpoint that takes slots, or waits for one. Its fields belong to the limiter.
type waiter struct {
	account signal.AccountID
	granted func() // notifies the endpoint; must not block

	flow  *flow
	class class
	place *list.Element // nil unless it waits
	holds bool          // a slot was granted and is not taken yet
}

func newLimiter(l limits) *limiter {
	return &limiter{limits: l, slots: slots{limit: l.total}, flows: map[flowKey]*flow{},
		accounts: map[signal.AccountID]*accountShare{}, hosts: map[string]*share{}}
}

// acquire takes a slot for requests to a host in l, or makes t wait for one: then t.granted
// is called once, after which the caller must call acquire again.
func (g *limiter) acquire(t *waiter, host string, l class) (slot, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	same := t.flow != nil && t.flow.key.host == host && t.class == l
	if same && t.holds {
		t.holds = false
		return slot{t.flow, l}, true
	}
	if same && t.place != nil {
		return slot{}, false
	}
	g.remove(t) // from the other class or another host
	g.join(t, host)
	t.class = l
	f := t.flow
	entered := g.turns[l].Len() == 0 && g.free(l) && f.full(l) == nil
	if entered {
		g.add(f, l, 1)
	} else {
		t.place = f.waiting[l].PushBack(t)
		if f.place[l] == nil {
			g.makeReady(f, l)
		}
	}
	g.grant() // its former slot may serve another
	return slot{f, l}, entered
}

// acquireMore takes another slot for an endpoint that holds one, if more than a quarter of
// all slots is free: that quarter is left for endpoints without one.
func (g *limiter) acquireMore(t *waiter, host string, l class) (slot, bool) {
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
	g.add(f, l, 1)
	return slot{f, l}, true
}

// release gives a slot back.
func (g *limiter) release(s slot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(s.flow, s.class)
	g.forget(s.flow)
	g.grant()
}

// withdraw removes t from the limiter and releases a slot granted to it.
func (g *limiter) withdraw(t *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(t)
	g.leave(t)
	g.grant()
}

// mustYield reports whether s must be given back after one request.
func (g *limiter) mustYield(s slot) bool {
	f, l := s.flow, s.class
	return g.wanted[l].Load() || f.own.wanted[l].Load() || f.host.wanted[l].Load() || f.account.wanted[l].Load()
}

// inFlight returns the number of used slots.
func (g *limiter) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// Callers of the methods below hold g.mu.

func (g *limiter) put(f *flow, l class) {
	g.add(f, l, -1)
	for l := range classes {
		g.wake(f, l)
	}
}

func (g *limiter) add(f *flow, l class, n int) {
	g.count(l, n)
	for _, s := range f.shares() {
		s.count(l, n)
		if l == slowClass { // wanted depends on slowUsed only
			s.want(&s.blocked)
		}
	}
}

// remove ends the wait of t, or releases the slot granted to it.
func (g *limiter) remove(t *waiter) {
	f, l := t.flow, t.class
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
		g.put(f, l)
	}
}

// join adds t to the flow of its account to a host.
func (g *limiter) join(t *waiter, host string) {
	if t.flow != nil && t.flow.key.host == host {
		return
	}
	g.leave(t)
	key := flowKey{t.account, host}
	f := g.flows[key]
	if f == nil {
		half := max(1, g.limits.host/2)
		f = &flow{key: key, account: g.accounts[key.account], host: g.hosts[host], own: newShare(half)}
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
	f.waiters++
	t.flow = f
}

// leave removes t, which neither waits nor holds a slot, from its flow.
func (g *limiter) leave(t *waiter) {
	if f := t.flow; f != nil {
		f.waiters--
		t.flow = nil
		g.forget(f)
	}
}

// forget drops f when it has no waiters and no slots.
func (g *limiter) forget(f *flow) {
	if f.waiters > 0 || f.own.used > 0 {
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

// makeReady adds f, which is in no list of l, to the ready flows of its account.
func (g *limiter) makeReady(f *flow, l class) {
	a := f.account
	f.in[l] = &a.ready[l]
	f.place[l] = a.ready[l].PushBack(f)
	if a.place[l] == nil {
		a.place[l] = g.turns[l].PushBack(a)
	}
}

// block makes f, which is in no list of l, wait until s has a free slot for l.
func (g *limiter) block(f *flow, l class, s *share) {
	f.in[l] = &s.blocked[l]
	f.place[l] = s.blocked[l].PushBack(f)
	s.want(&s.blocked)
}

// takeOut removes f from the list of l in which it waits.
func (g *limiter) takeOut(f *flow, l class) {
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

// wake makes a blocked flow ready at each share of f that has a free slot for l.
func (g *limiter) wake(f *flow, l class) {
	for _, s := range f.shares() {
		if s.free(l) && s.blocked[l].Len() > 0 {
			next := s.blocked[l].Front().Value.(*flow)
			g.takeOut(next, l)
			g.makeReady(next, l)
		}
	}
}

// grant gives free slots to waiters, to the classes in turn.
func (g *limiter) grant() {
	for misses := class(0); misses < classes; {
		l := g.turn
		g.turn = (g.turn + 1) % classes
		if misses++; g.grantOne(l) {
			misses = 0
		}
	}
	g.want(&g.turns)
}

// grantOne gives a slot to the account whose turn it is.
func (g *limiter) grantOne(l class) bool {
	for g.free(l) && g.turns[l].Len() > 0 {
		a := g.turns[l].Front().Value.(*accountShare)
		f := a.ready[l].Front().Value.(*flow)
		g.takeOut(f, l)
		if s := f.full(l); s != nil {
			g.block(f, l, s)
			g.wake(f, l)
			continue
		}
		t := f.waiting[l].Remove(f.waiting[l].Front()).(*waiter)
		t.place, t.holds = nil, true
		g.add(f, l, 1)
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
