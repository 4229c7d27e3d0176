package chaos

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// change is the creation or the closing of a signal.
type change struct {
	Signal signal.SignalID
	Closed bool
}

func (c change) String() string {
	if c.Closed {
		return "the closing of " + string(c.Signal)
	}
	return "the creation of " + string(c.Signal)
}

// logged is a change in the signal log.
type logged struct {
	change
	Account signal.AccountID
	At      signal.Position
}

// seen is a change that a stream has sent.
type seen struct {
	change
	At signal.Position
}

// watched is what one stream client saw over all of its connections.
type watched struct {
	account signal.AccountID
	events  []seen
	early   []seen // sent before the reply to a subscribe, in no order with the others
	gaps    int    // resumes that were not complete
	resumes int
}

// record is what clients saw. Its methods are safe for concurrent use.
type record struct {
	mu           sync.Mutex
	acknowledged map[signal.SignalID]int
	givenUp      map[signal.AccountID]int                               // requests
	delivered    map[signal.AccountID]map[change]map[signal.EventID]int // requests to a webhook
	streams      []*watched
	epochs       map[string]int64 // the newest of each partition and of the market
	faults       []string         // found while it was made
}

func newRecord() *record {
	return &record{acknowledged: map[signal.SignalID]int{}, givenUp: map[signal.AccountID]int{},
		delivered: map[signal.AccountID]map[change]map[signal.EventID]int{}, epochs: map[string]int64{}}
}

func (r *record) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// answered notes a run that was answered with success.
func (r *record) answered(id signal.SignalID) { r.note(func() { r.acknowledged[id]++ }) }

// received notes a request to the webhook of an account.
func (r *record) received(account signal.AccountID, c change, event signal.EventID) {
	r.note(func() {
		of := r.delivered[account]
		if of == nil {
			of = map[change]map[signal.EventID]int{}
			r.delivered[account] = of
		}
		if of[c] == nil {
			of[c] = map[signal.EventID]int{}
		}
		of[c][event]++
	})
}

// owned notes the epoch under which a partition or the market was owned at one moment.
func (r *record) owned(what string, epoch int64) {
	r.note(func() {
		if epoch < r.epochs[what] {
			r.faults = append(r.faults, fmt.Sprintf("%s has the epoch %d after %d", what, epoch, r.epochs[what]))
		}
		r.epochs[what] = max(epoch, r.epochs[what])
	})
}

// verdict returns what is wrong: the log in its order, and the lists of each account by node, compared
// with what clients saw.
func (r *record) verdict(log []logged, lists map[string]map[signal.AccountID][]signal.SignalID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := slices.Clone(r.faults)
	fault := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	counts := map[change]int{}
	accounts := map[signal.SignalID]signal.AccountID{}
	for _, e := range log {
		counts[e.change]++
		accounts[e.Signal] = e.Account
	}
	r.judgeLog(counts, accounts, fault)
	r.judgeLists(accounts, lists, fault)
	r.judgeWebhooks(log, counts, accounts, fault)
	for i, w := range r.streams {
		w.judge(fmt.Sprintf("stream %d", i), log, fault)
	}
	return found
}

type faultFunc func(format string, args ...any)

// judgeLog checks the log itself: what was acknowledged is there once, and each signal is closed once.
func (r *record) judgeLog(counts map[change]int, accounts map[signal.SignalID]signal.AccountID, fault faultFunc) {
	for id, times := range r.acknowledged {
		if n := counts[change{Signal: id}]; n != 1 {
			fault("%s was acknowledged %d times and is %d times in the log", id, times, n)
		}
		if times > 1 {
			fault("%s answers %d requests", id, times)
		}
	}
	extra := map[signal.AccountID]int{}
	for c, n := range counts {
		created := counts[change{Signal: c.Signal}]
		switch closed := counts[change{c.Signal, true}]; {
		case n > 1:
			fault("%s is %d times in the log", c, n)
		case created == 0:
			fault("%s is in the log without its creation", c)
		case closed == 0:
			fault("%s is not closed", c.Signal)
		}
		if !c.Closed && r.acknowledged[c.Signal] == 0 {
			extra[accounts[c.Signal]]++
		}
	}
	for account, n := range extra {
		if n > r.givenUp[account] {
			fault("%d signals of %s are of no answered request, and %d requests were given up", n, account, r.givenUp[account])
		}
	}
}

// judgeLists checks that each node lists each signal of the log once, for its account.
func (r *record) judgeLists(accounts map[signal.SignalID]signal.AccountID,
	lists map[string]map[signal.AccountID][]signal.SignalID, fault faultFunc) {
	for node, list := range lists {
		listed := map[signal.SignalID]int{}
		for account, ids := range list {
			for _, id := range ids {
				listed[id]++
				if owner, ok := accounts[id]; !ok || owner != account {
					fault("%s lists %s for %s; in the log it is of %q", node, id, account, owner)
				}
			}
		}
		for id := range accounts {
			if listed[id] != 1 {
				fault("%s lists %s %d times", node, id, listed[id])
			}
		}
	}
}

// judgeWebhooks checks that each change of the log was delivered under one event id, and nothing else.
func (r *record) judgeWebhooks(log []logged, counts map[change]int, accounts map[signal.SignalID]signal.AccountID,
	fault faultFunc) {
	for _, e := range log {
		if ids := r.delivered[e.Account][e.change]; len(ids) != 1 {
			fault("%s was delivered under %d event ids", e.change, len(ids))
		}
	}
	for account, changes := range r.delivered {
		for c := range maps.Keys(changes) {
			if counts[c] == 0 || accounts[c.Signal] != account {
				fault("%s was delivered to %s, and the log does not have it", c, account)
			}
		}
	}
}

// judge checks that a stream has shown each change of its account once, in order.
func (w *watched) judge(name string, log []logged, fault faultFunc) {
	if w.gaps > 0 {
		fault("%s: %d of %d resumes were not complete", name, w.gaps, w.resumes)
	}
	var want []seen
	for _, e := range log {
		if e.Account == w.account {
			want = append(want, seen{e.change, e.At})
		}
	}
	slices.SortFunc(want, func(a, b seen) int { return a.At.Compare(b.At) })
	inLog := map[seen]bool{}
	for _, s := range want {
		inLog[s] = true
	}
	times := map[seen]int{}
	var last signal.Position
	for _, s := range w.events {
		times[s]++
		if s.At.Compare(last) < 0 {
			fault("%s: %s at %s comes after %s", name, s.change, s.At, last)
		}
		last = s.At
		if !inLog[s] {
			fault("%s: %s at %s is not in the log", name, s.change, s.At)
		}
	}
	for _, s := range w.early {
		times[s] = max(times[s], 1) // again only if the connection ended before it had resumed
		if !inLog[s] {
			fault("%s: %s at %s is not in the log", name, s.change, s.At)
		}
	}
	for _, s := range want {
		if times[s] != 1 {
			fault("%s: %s was sent %d times", name, s.change, times[s])
		}
	}
}
