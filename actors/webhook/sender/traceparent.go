package sender

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// appendTraceparent adds the W3C Trace Context of an attempt. The trace is that of the event: its identifier is the
// event's ULID in hexadecimal, so that all deliveries of an event and all their attempts are in one, whatever
// process makes them. The parent is the attempt. Its flags are 0, since the service records no span of it.
func appendTraceparent(b []byte, r *Request) []byte {
	trace, ok := signal.ULIDBytes(string(r.Event))
	if !ok {
		sum := sha256.Sum256([]byte(r.Event))
		trace = [16]byte(sum[:])
	}
	id := binary.BigEndian.AppendUint64(append([]byte(nil), r.Delivery...), uint64(r.Attempt))
	parent := sha256.Sum256(id)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, parent[:8])
	return append(b, "-00"...)
}
