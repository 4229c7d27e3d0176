package dashboard

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// transport is how a connection carries messages. Each message is one JSON object, with the same bytes
// by all transports.
type transport uint8

const (
	webSocket   transport = iota
	eventStream           // Server-Sent Events (HTML standard, section 9.2)
)

// maxEnvelope is the most bytes that a transport adds to a message.
const maxEnvelope = 64

// append adds a message to b. id is the position of its event, zero if it has none: then a client that
// resumes goes on from an earlier message.
func (t transport) append(b, text []byte, id signal.Position) []byte {
	return append(append(t.appendHead(b, len(text), id), text...), t.tail()...)
}

// size returns the number of bytes that append adds.
func (t transport) size(text []byte, id signal.Position) int {
	var head [maxEnvelope]byte
	return len(t.appendHead(head[:0], len(text), id)) + len(text) + len(t.tail())
}

// appendHead adds what stands before a message of n bytes. Events have no name, so that EventSource passes all
// of them to onmessage.
func (t transport) appendHead(b []byte, n int, id signal.Position) []byte {
	switch {
	case t == eventStream && id.IsZero():
		return append(b, "data: "...)
	case t == eventStream:
		return append(id.Append(append(b, "id: "...)), "\ndata: "...)
	case n <= maxControlBytes:
		return append(b, finalBit|opText, byte(n))
	case n <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(b, finalBit|opText, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, finalBit|opText, 127), uint64(n))
}

// tail returns what stands behind a message.
func (t transport) tail() string {
	if t == eventStream {
		return "\n\n"
	}
	return ""
}

// appendClose adds the last bytes of a connection, which name the reason of its end.
func (t transport) appendClose(b []byte, why closing, now time.Time) []byte {
	if t == webSocket {
		return appendClose(b, why)
	}
	b = appendRetry(append(b, "event: close\n"...), why)
	return t.append(b, encodeReply("close", closeData{why.code, why.reason}, now), signal.Position{})
}

// Pauses before clients of Server-Sent Events connect again, which they do by themselves.
const (
	minReturn    = 500 * time.Millisecond
	returnSpread = 4500 * time.Millisecond // of clients that lose their connections at the same time
	returnLater  = 10 * time.Second        // added if an immediate return is of no use
)

// appendRetry adds the field that tells a client when to connect again after why.
func appendRetry(b []byte, why closing) []byte {
	pause := minReturn + rand.N(returnSpread)
	switch why {
	case closing{}, closeGoingAway, closeSlow:
	default:
		pause += returnLater
	}
	b = strconv.AppendInt(append(b, "retry: "...), pause.Milliseconds(), 10)
	return append(b, '\n')
}
