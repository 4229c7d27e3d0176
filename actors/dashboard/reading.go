package dashboard

import "time"

// Limits of a client's pace.
const (
	// mostExcess is how many messages over the pace are told to the actor, which
	// closes long before that.
	mostExcess = 32

	errorsPerMinute = 10 // the tenth closes
)

// What the reading goroutine tells the connection's actor.
type (
	// received is a message of the client. excess: it came too fast.
	received struct {
		text   []byte
		excess bool
	}
	// violated says that the client sent what closes the connection.
	violated struct{ why closing }
	// clientClosed says that the client sent a close frame.
	clientClosed struct{}
)

// read reads from the client until its socket ends. It is all that the reading
// goroutine does: its stack stays small, for there is one a connection.
func (p *peer) read() {
	r := reading{peer: p}
	// Whatever ended it, the connection is over.
	p.flusher.hub.guard(func() { _ = p.socket.receive(r.take) })
	p.flusher.post(left{p})
}

// reading is what the reading goroutine keeps.
type reading struct {
	peer     *peer
	decoder  decoder
	messages pace
	pings    pace
	excess   int
	deaf     bool // the connection is to be closed: the rest is not looked at
}

func (r *reading) take(b []byte) {
	r.peer.lastSeen.Store(r.peer.flusher.hub.clock())
	if r.deaf {
		return
	}
	if why := r.decoder.feed(b, r.heard); why.code != 0 {
		r.deaf = true
		r.peer.ref.Tell(violated{why})
	}
}

// heard handles one message or control frame.
func (r *reading) heard(opcode byte, payload []byte) {
	if r.deaf {
		return
	}
	now, rate := r.peer.flusher.hub.clock(), r.peer.flusher.hub.o.MessageRate
	switch opcode {
	case opText:
		m := received{text: payload, excess: !r.messages.allow(now, rate, time.Second)}
		if m.excess {
			if r.excess++; r.excess > mostExcess {
				r.deaf = true
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
		r.deaf = true
		r.peer.ref.Tell(clientClosed{})
	}
}

// pace counts what happened in the last while.
type pace struct{ times []int64 }

// allow notes that something happens at now, unless it already happened most
// times within the last while.
func (p *pace) allow(now int64, most int, while time.Duration) bool {
	old := 0
	for old < len(p.times) && now-p.times[old] >= int64(while) {
		old++
	}
	p.times = append(p.times[:0], p.times[old:]...)
	if len(p.times) >= most {
		return false
	}
	p.times = append(p.times, now)
	return true
}
