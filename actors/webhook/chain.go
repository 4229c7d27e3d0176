package webhook

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// place is where in its endpoint's queue a delivery is.
type place byte

const (
	queued  place = iota // live or in the backlog, or under way
	parked               // it was taken out and waits for another one of its signal
	ready                // its turn has come
	removed              // it was taken out and is to be skipped
)

// chain are the deliveries of one signal that a queue holds, in the order of their
// events. Only the first one is sent.
type chain struct {
	items []*item
	busy  bool // the first is under way, or has failed and the actor has not seen it yet
}

// signalMark stands in front of a signal's identifier in the payloads of its events. In
// a text its quotation marks would be escaped.
var signalMark = []byte(`"signal_id":"`)

// signalOf returns the signal that an event is about, which body is sent of or is the
// payload of; empty if its order does not matter.
func signalOf(t signal.EventType, body []byte) signal.SignalID {
	if !strings.HasPrefix(string(t), "signal.") {
		return ""
	}
	_, rest, ok := bytes.Cut(body, signalMark)
	if !ok {
		return ""
	}
	id, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return ""
	}
	return signal.SignalID(id)
}

// rank orders events of a signal that happened in the same millisecond.
func rank(t signal.EventType) int {
	return slices.Index([]signal.EventType{signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed}, t)
}

// before reports whether the event of i happened before that of other.
func (i *item) before(other *item) bool {
	return cmp.Or(i.CreatedAt.Compare(other.CreatedAt), cmp.Compare(rank(i.Type), rank(other.Type)),
		cmp.Compare(i.Event, other.Event)) < 0
}

// begins reports whether no earlier event can be about the same signal.
func (i *item) begins() bool { return i.signal == "" || i.Type == signal.SignalCreated }

// For the methods below q is locked, unless they say otherwise.

// link adds d to the chain of its signal.
func (q *queue) link(d *item) {
	if d.signal == "" {
		return
	}
	c := q.chains[d.signal]
	if c == nil {
		c = &chain{}
		q.chains[d.signal] = c
	}
	n, first := len(c.items), 0
	if c.busy {
		first = 1
	}
	for n > first && d.before(c.items[n-1]) {
		n--
	}
	c.items = slices.Insert(c.items, n, d)
	d.chain = c
}

// begins reports whether d may be sent now, and notes that it is.
func (q *queue) begins(d *item) bool {
	c := d.chain
	if c == nil {
		return true
	}
	if c.busy || c.items[0] != d {
		return false
	}
	c.busy = true
	return true
}

// leave takes d, the first of its chain, out of it: the next one may be sent.
func (q *queue) leave(d *item) {
	c := d.chain
	if c == nil {
		return
	}
	c.busy, d.chain = false, nil
	_, c.items = cutFirst(c.items)
	q.wake(d.signal, c)
}

// wake has the first of a chain sent if it waits for that; an empty chain is forgotten.
func (q *queue) wake(id signal.SignalID, c *chain) {
	if len(c.items) == 0 {
		delete(q.chains, id)
	} else if first := c.items[0]; !c.busy && first.place == parked {
		first.place = ready
		q.ready = append(q.ready, first)
	}
}

// unlinkLast takes d, which is neither under way nor parked, out of its chain if
// nothing waits for it.
func (q *queue) unlinkLast(d *item) bool {
	c := d.chain
	if c == nil {
		return true
	}
	n := len(c.items) - 1
	if c.items[n] != d {
		return false
	}
	d.chain = nil
	if c.items = c.items[:n]; n == 0 {
		delete(q.chains, d.signal)
	}
	return true
}

// unlink empties the chains but for what is under way, and returns what was parked.
func (q *queue) unlink() (waiting []*item) {
	for id, c := range q.chains {
		for _, d := range c.items {
			if d.place != queued {
				waiting = append(waiting, d)
			}
		}
		if !c.busy {
			delete(q.chains, id)
			continue
		}
		c.items = c.items[:1]
	}
	return waiting
}

// over notes that d has failed and holds up no other delivery. It may be called by the actor.
func (q *queue) over(d *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave(d)
}

// holdUp takes the deliveries behind d, which has failed, out of the queue and returns
// them. It may be called by the actor.
func (q *queue) holdUp(d *item) (behind []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := d.chain
	if c == nil {
		return nil
	}
	behind = c.items[1:]
	delete(q.chains, d.signal)
	d.chain = nil
	for _, d := range behind {
		if d.place == parked {
			q.parked--
		}
		d.place, d.chain = removed, nil
	}
	return behind
}
