package webhook

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// class is which slots of the limiter an endpoint may take. The slow class takes at most a
// quarter, and at least one, of the slots in all and of those of each share. So a fast
// endpoint never waits for slots that only slow ones hold, except where there is only one.
type class int

const (
	fastClass class = iota
	slowClass       // endpoints that hang, or answer slowly
	classes
)

// limits are how many requests may be in flight at once.
type limits struct {
	total   int // in all
	account int // of one account
	host    int // to one host; of them at most half of one account
}

// limiter shares the requests in flight of a process among the endpoints. It never blocks.
// An endpoint that finds no slot waits as a waiter and is notified when it has one.
// Accounts that wait are served by turns, whatever number of endpoints they have; so are
// the hosts of an account, and the accounts that wait for a host. While others wait for
// what a slot takes, its holder gives it back after one request.
//
// Endpoints of an account with the same host wait in one flow, by classes. A flow that waits
// in a class is ready there, or it is blocked at a share that has no free slot for the class.
// As long as flows are blocked at a share, at least as many of its flows are ready in the
// same class as it has free slots for the class: a slot given back wakes one in each class,
// and so does a ready flow that goes without taking one.
type limiter struct {
	limits limits

	mu       sync.Mutex
	slots    // in all
	flows    map[flowKey]*flow
	accounts map[signal.AccountID]*accountShare
	hosts    map[string]*share
	turns    [classes]list.List // of *accountShare with flows that are ready
	turn     class              // which class is served first at the next grant
}

// slots counts the slots of the limiter or of a share.
type slots struct {
	limit    int
	used     int // those of the slow class and granted ones included
	slowUsed int // of them by the slow class
	// wanted is for asked: whether a slot of a class may serve a flow that waits here.
	wanted [classes]atomic.Bool
}

// free reports whether there is a free slot for l.
func (s *slots) free(l class) bool { return s.used < s.limit && (l == fastClass || s.slowFree()) }

// slowFree reports whether the slow class has not taken its part.
func (s *slots) slowFree() bool { return s.slowUsed < max(1, s.limit/4) }

func (s *slots) count(l class, n int) {
	s.used += n
	if l == slowClass {
		s.slowUsed += n
	}
}

// want sets wanted. waiting has the flows that wait here.
func (s *slots) want(waiting *[classes]list.List) {
	fast, slow := waiting[fastClass].Len() > 0, waiting[slowClass].Len() > 0
	for l, now := range [classes]bool{fastClass: fast || slow && s.slowFree(), slowClass: fast || slow} {
		if s.wanted[l].Load() != now { // asked reads it all the time
			s.wanted[l].Store(now)
		}
	}
}

// share is a part of the slots: those of an account, a host, or an account at a host.
type share struct {
	slots
	flows   int                // that draw on it
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

// flow is what an account sends to a host.
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

// shares returns what a slot of f takes from.
func (f *flow) shares() [3]*share { return [3]*share{&f.own, f.host, &f.account.share} }

// full returns a share of f without a free slot for l, nil if all have one.
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

// acquire takes a slot for requests to a host in l, or has t wait for one: then t.granted
// is called once, and enter is to be called again.
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
	g.remove(t) // it waits, or has a slot, in the other class or for another host
	g.join(t, host)
	t.class = l
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

// acquireMore takes a further slot for an endpoint that holds one, if there is plenty: a
// quarter of all is left for endpoints that hold none. Then no endpoint waits that the slot
// would serve.
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
	g.take(f, l)
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

// withdraw takes t away from the limiter. What was granted is given back.
func (g *limiter) withdraw(t *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(t)
	g.part(t)
	g.grant()
}

// asked reports whether s is to be given back after one request.
func (g *limiter) asked(s slot) bool {
	f, l := s.flow, s.class
	return g.wanted[l].Load() || f.own.wanted[l].Load() || f.host.wanted[l].Load() || f.account.wanted[l].Load()
}

// inFlight returns how many slots are taken.
func (g *limiter) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// For the methods below g is locked.

func (g *limiter) take(f *flow, l class) { g.add(f, l, 1) }

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
		if l == slowClass { // what is wanted depends on no other count
			s.want(&s.blocked)
		}
	}
}

// remove ends the waiting of t, or gives back what it was granted.
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
	f.waiters++
	t.flow = f
}

// part takes t, which neither waits nor holds a slot, out of its flow.
func (g *limiter) part(t *waiter) {
	if f := t.flow; f != nil {
		f.waiters--
		t.flow = nil
		g.forget(f)
	}
}

// forget drops f if nothing has to do with it any more.
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

// makeReady has f, which is in no list of l, served when it is the turn of its account.
func (g *limiter) makeReady(f *flow, l class) {
	a := f.account
	f.in[l] = &a.ready[l]
	f.place[l] = a.ready[l].PushBack(f)
	if a.place[l] == nil {
		a.place[l] = g.turns[l].PushBack(a)
	}
}

// block has f, which is in no list of l, wait until s has a free slot for l.
func (g *limiter) block(f *flow, l class, s *share) {
	f.in[l] = &s.blocked[l]
	f.place[l] = s.blocked[l].PushBack(f)
	s.want(&s.blocked)
}

// takeOut takes f out of the list of l in which it waits.
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

// wake makes the next flow ready that is blocked at a share of f which has a free slot for l.
func (g *limiter) wake(f *flow, l class) {
	for _, s := range f.shares() {
		if s.free(l) && s.blocked[l].Len() > 0 {
			next := s.blocked[l].Front().Value.(*flow)
			g.takeOut(next, l)
			g.makeReady(next, l)
		}
	}
}

// grant gives free slots to those that wait, to the classes by turns.
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
