package dashboard

import "time"

// Limits of a client's message rate.
const (
	// maxExcess is how many messages over the rate limit are passed to the actor,
	// which closes the connection long before that.
	maxExcess       = 32
	errorsPerMinute = 10 // the tenth closes the connection
)

// Messages from the client to the connection's actor.
type (
	// received is a message of the client; excess means that it exceeds the rate limit.
	received struct {
		text   []byte
		excess bool
	}
	// violated reports a violation of the protocol that closes the connection.
	violated struct{ why closing }
	// clientClosed reports a close frame of the client.
	clientClosed struct{}
)

// reading is the state of decoding what a client sends. It implements receiver.
type reading struct {
	peer     *peer
	decoder  decoder
	messages rateWindow
	pings    rateWindow
	excess   int
	ignoring bool // the connection is being closed: later bytes are ignored
}

func (r *reading) ended() { r.peer.flusher.post(readerDone{r.peer}) }

func (r *reading) take(b []byte) {
	r.peer.lastSeen.Store(r.peer.flusher.hub.clock())
	if r.ignoring {
		return
	}
	if why := r.decoder.feed(b, r.handle); why.code != 0 {
		r.ignoring = true
		r.peer.ref.Tell(violated{why})
	}
}

// handle handles one message or control frame.
func (r *reading) handle(opcode byte, payload []byte) {
	if r.ignoring {
		return
	}
	now, rate := r.peer.flusher.hub.clock(), r.peer.flusher.hub.o.MessageRate
	switch opcode {
	case opText:
		m := received{text: payload, excess: !r.messages.allow(now, rate, time.Second)}
		if m.excess {
			if r.excess++; r.excess > maxExcess {
				r.ignoring = true
				r.peer.ref.Tell(violated{closeFlood})
				return
			}
		}
		r.peer.ref.Tell(m)
	case opPing:
		// A flood of pings is not answered: its client could not use the answers.
		if r.pings.allow(now, rate, time.Second) {
			r.peer.flusher.post(pinged{r.peer, payload})
		}
	case opClose:
		r.ignoring = true
		r.peer.ref.Tell(clientClosed{})
	}
}

// maxDiscarded is how many bytes a client may send that has nothing to say.
const maxDiscarded = 16 << 10

// discarding reads from a client of Server-Sent Events until it leaves. It implements receiver.
type discarding struct {
	peer  *peer
	bytes int
}

func (d *discarding) ended() { d.peer.flusher.post(readerDone{d.peer}) }

func (d *discarding) take(b []byte) {
	before := d.bytes
	if d.bytes += len(b); before <= maxDiscarded && d.bytes > maxDiscarded {
		d.peer.ref.Tell(violated{closeProtocol})
	}
}

// rateWindow limits the number of events in a sliding window.
type rateWindow struct{ times []int64 }

// allow records an event at now, unless the window already holds limit of them. It
// reports whether it did.
func (w *rateWindow) allow(now int64, limit int, window time.Duration) bool {
	old := 0
	for old < len(w.times) && now-w.times[old] >= int64(window) {
		old++
	}
	w.times = append(w.times[:0], w.times[old:]...)
	if len(w.times) >= limit {
		return false
	}
	w.times = append(w.times, now)
	return true
}
