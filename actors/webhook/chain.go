package webhook

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// place is the place of a delivery in its endpoint's queue.
type place byte

const (
	queued  place = iota // live, in the backlog, or being sent
	parked               // waits for another one of its signal
	ready                // the one it waited for is done
	removed              // must be skipped
)

// chain is the list of a queue's deliveries of one signal, in the order of their events.
// Only the first one is sent.
type chain struct {
	items []*item
	busy  bool // the first is being sent, or has failed and the actor does not know it yet
}

// signalMark precedes a signal's identifier in the payloads of its events. Inside a text
// its quotation marks would be escaped.
var signalMark = []byte(`"signal_id":"`)

// signalOf returns the signal in an event's body or payload, or "" if the order of the
// event does not matter.
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

// isFirst reports whether no earlier event of the same signal can exist.
func (i *item) isFirst() bool { return i.signal == "" || i.Type == signal.SignalCreated }

// Callers of the methods below hold q.mu, unless the method locks it itself.

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

// tryBegin reports whether d may be sent now, and marks its chain as busy.
func (q *queue) tryBegin(d *item) bool {
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

// leave removes d, the first of its chain, so that the next one may be sent.
func (q *queue) leave(d *item) {
	c := d.chain
	if c == nil {
		return
	}
	c.busy, d.chain = false, nil
	_, c.items = cutFirst(c.items)
	q.wake(d.signal, c)
}

// wake makes a parked first delivery of a chain ready, or drops an empty chain.
func (q *queue) wake(id signal.SignalID, c *chain) {
	if len(c.items) == 0 {
		delete(q.chains, id)
	} else if first := c.items[0]; !c.busy && first.place == parked {
		first.place = ready
		q.ready = append(q.ready, first)
	}
}

// unlinkLast removes d, which is neither being sent nor parked, from its chain if it is the
// last one there, and reports whether it did.
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

// unlink empties the chains except for deliveries being sent, and returns the parked ones.
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

// unblock lets the deliveries of the chain after d, which has failed, be sent. It locks q.
func (q *queue) unblock(d *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave(d)
}

// takeAfter removes the deliveries of the chain after d, which has failed, from the queue
// and returns them. It locks q.
func (q *queue) takeAfter(d *item) (behind []*item) {
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
