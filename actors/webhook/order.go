package webhook

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// liveTurns is how many live deliveries are sent between two of the backlog.
const liveTurns = 3

// place is the place of a delivery in its endpoint's order.
type place byte

const (
	queued  place = iota // live, in the backlog, or being sent
	parked               // waits for another one of its signal
	ready                // the one it waited for is done
	removed              // must be skipped
)

// order holds the deliveries of an endpoint that wait, and decides which of them is sent next. The events of
// a signal are sent one at a time, in their order. An order is not safe for concurrent use.
type order struct {
	live    []*item       // new deliveries, oldest first
	maxLive int           // what a minute's rate allows, at most the constant
	free    *atomic.Int64 // how many more all orders of the process may have live
	shut    bool          // live ones wait: Redis may have earlier ones
	backlog []*item       // read from Redis, oldest first
	ready   []*item       // the previous delivery of their signal is done
	parked  int           // deliveries that wait for one of the same signal, or are ready
	chains  map[signal.SignalID]*chain
	turn    int
}

// chain is the list of an order's deliveries of one signal, in the order of their events.
// Only the first one is sent.
type chain struct {
	items []*item
	busy  bool // the first is being sent, or has failed and the actor does not know it yet
}

// newOrder returns an order without deliveries. free is how many more all orders of the process may have live.
func newOrder(free *atomic.Int64) order {
	return order{maxLive: maxLive, free: free, chains: map[signal.SignalID]*chain{}}
}

// addLive adds new deliveries, oldest first. It returns the newest ones if there are too many.
func (o *order) addLive(items []*item) (dropped []*item) {
	for i, d := range items {
		if len(o.live)+o.parked >= o.maxLive {
			return items[i:]
		}
		if o.free.Add(-1) < 0 {
			o.free.Add(1)
			return items[i:]
		}
		o.live = append(o.live, d)
		o.link(d)
	}
	return nil
}

// addBacklog adds deliveries that were read from Redis, oldest first.
func (o *order) addBacklog(items []*item) {
	o.backlog = append(o.backlog, items...)
	for _, d := range items {
		o.link(d)
	}
}

// clear removes and returns all deliveries except those being sent.
func (o *order) clear() (dropped []*item) {
	dropped = append(o.backlog, o.live...)
	o.free.Add(int64(len(o.live)))
	o.backlog, o.live = nil, nil
	dropped = slices.DeleteFunc(dropped, func(d *item) bool { return d.place != queued })
	dropped = append(dropped, o.unlink()...)
	o.ready, o.parked = nil, 0
	return dropped
}

// dropLive removes and returns the live deliveries, except those that others of their
// signal wait for and, of a recovering endpoint, those without earlier ones.
func (o *order) dropLive(recovering bool) (dropped []*item) {
	var kept []*item
	for _, d := range slices.Backward(o.live) { // a chain loses its last one first
		if d.place == queued && !(recovering && d.isFirst()) && o.unlinkLast(d) {
			dropped = append(dropped, d)
		} else {
			kept = append(kept, d)
		}
	}
	slices.Reverse(kept)
	o.live = kept
	o.free.Add(int64(len(dropped)))
	return dropped
}

// expose releases the deliveries, so that those in flight are stored soon.
func (o *order) expose() {
	for _, d := range o.live {
		d.released.Store(true)
	}
	for _, c := range o.chains {
		for _, d := range c.items {
			d.released.Store(true)
		}
	}
}

// waiting returns the number of deliveries that may be sent, as far as it is known.
func (o *order) waiting() int {
	n := len(o.ready) + len(o.backlog)
	if !o.shut {
		n += len(o.live)
	}
	return n
}

// len returns the number of deliveries, without those being sent.
func (o *order) len() int { return len(o.live) + len(o.backlog) + o.parked }

// pop removes the next delivery to send, or returns nil. It parks those that wait for
// another one of their signal. probe is set while one request at a time is sent.
func (o *order) pop(recovering, probe bool) *item {
	for {
		var d *item
		if probe {
			d = o.popProbe(recovering)
		} else {
			d = o.popAny(recovering)
		}
		switch {
		case d == nil:
			return nil
		case d.place == removed:
		case !o.tryBegin(d):
			d.place = parked
			o.parked++
		default:
			return d
		}
	}
}

// popAny removes a ready delivery, else the oldest one. A recovering endpoint gets three of
// the newest, then one of the oldest, preferably from the backlog.
func (o *order) popAny(recovering bool) (d *item) {
	if len(o.ready) > 0 {
		d, o.ready = cutFirst(o.ready)
		o.parked--
		if d.place == ready {
			d.place = queued
		}
		return d
	}
	live := len(o.live) > 0 && !o.shut
	oldest := true
	if recovering {
		o.turn++
		oldest = o.turn%(liveTurns+1) == 0
	}
	preferBacklog := func() bool {
		return !live || oldest && (recovering || !o.live[0].before(o.backlog[0]))
	}
	if len(o.backlog) > 0 && preferBacklog() {
		d, o.backlog = cutFirst(o.backlog)
		return d
	}
	if !live {
		return nil
	}
	return o.popLive(oldest)
}

// popLive removes the oldest or the newest live delivery.
func (o *order) popLive(oldest bool) (d *item) {
	o.free.Add(1)
	if oldest {
		d, o.live = cutFirst(o.live)
		return d
	}
	last := len(o.live) - 1
	d, o.live[last] = o.live[last], nil
	o.live = o.live[:last]
	return d
}

// popProbe removes the delivery that loses least if the endpoint answers no better than before: the one with the most
// attempts to come, the oldest of these. So one that is answered 429 is not tried again while others wait, and
// no delivery uses up its attempts because it happens to be the first.
func (o *order) popProbe(recovering bool) *item {
	live := len(o.live) > 0 && !o.shut
	best := -1
	for i, d := range o.backlog {
		if best < 0 || d.spent() < o.backlog[best].spent() {
			best = i
		}
	}
	switch {
	case len(o.ready) > 0 || best < 0 && !live:
		return o.popAny(recovering)
	case best < 0 || live && o.backlog[best].spent() > 0:
		return o.popLive(true)
	}
	d := o.backlog[best]
	o.backlog = slices.Delete(o.backlog, best, best+1)
	return d
}

// link adds d to the chain of its signal.
func (o *order) link(d *item) {
	if d.signal == "" {
		return
	}
	c := o.chains[d.signal]
	if c == nil {
		c = &chain{}
		o.chains[d.signal] = c
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
func (o *order) tryBegin(d *item) bool {
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
func (o *order) leave(d *item) {
	c := d.chain
	if c == nil {
		return
	}
	c.busy, d.chain = false, nil
	if _, c.items = cutFirst(c.items); len(c.items) == 0 {
		delete(o.chains, d.signal)
	} else if first := c.items[0]; first.place == parked {
		first.place = ready
		o.ready = append(o.ready, first)
	}
}

// unlinkLast removes d, which is neither being sent nor parked, from its chain if it is the
// last one there, and reports whether it did.
func (o *order) unlinkLast(d *item) bool {
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
		delete(o.chains, d.signal)
	}
	return true
}

// unlink empties the chains except for deliveries being sent, and returns the parked ones.
func (o *order) unlink() (waiting []*item) {
	for id, c := range o.chains {
		for _, d := range c.items {
			if d.place != queued {
				waiting = append(waiting, d)
			}
		}
		if !c.busy {
			delete(o.chains, id)
			continue
		}
		c.items = c.items[:1]
	}
	return waiting
}

// takeAfter removes the deliveries of the chain after d, which has failed, and returns them.
func (o *order) takeAfter(d *item) (behind []*item) {
	c := d.chain
	if c == nil {
		return nil
	}
	behind = c.items[1:]
	delete(o.chains, d.signal)
	d.chain = nil
	for _, d := range behind {
		if d.place == parked {
			o.parked--
		}
		d.place, d.chain = removed, nil
	}
	return behind
}

// cutFirst splits items into the first and the others, nil without others.
func cutFirst(items []*item) (*item, []*item) {
	d := items[0]
	items[0] = nil
	if len(items) == 1 {
		return d, nil
	}
	return d, items[1:]
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
