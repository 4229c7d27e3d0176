package persistence

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// replyDigest names a key of a request in the keys of Redis.
func replyDigest(k *signal.ReplyKey) string {
	h := sha256.New()
	for _, s := range []string{k.Method, k.Path, k.Key} {
		h.Write(appendString(nil, s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// appendReplyLock adds what a locked key holds.
func appendReplyLock(b []byte, k *signal.ReplyKey) []byte {
	return append(append(b, codecVersion), k.RequestHash[:]...)
}

// appendReply adds a reply. In Redis a position stands in front, which tells it
// from a lock.
func appendReply(b []byte, r *signal.Reply) []byte {
	b = append(append(b, codecVersion), r.RequestHash[:]...)
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = binary.AppendUvarint(b, uint64(len(r.Header)))
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = appendString(appendString(b, name), r.Header[name])
	}
	switch {
	case r.Omitted:
		return append(b, bodyOmitted)
	case r.Body == nil:
		return append(b, bodySignal)
	}
	return append(append(b, bodyKept), r.Body...)
}

// What a reply has for a body.
const (
	bodySignal  = 0 // the signal at its position
	bodyKept    = 1 // what follows
	bodyOmitted = 2
)

// decodeReply reads what a key holds. Of a lock, the reply has status 0.
func decodeReply(value []byte) (*signal.Reply, signal.Position, error) {
	var at signal.Position
	r := &signal.Reply{}
	lock := len(value) > 0 && value[0] == codecVersion
	if !lock {
		var err error
		if at, value, err = cutStamp(value); err != nil {
			return nil, at, fmt.Errorf("decode reply: %w", err)
		}
	}
	d := decode(value)
	copy(r.RequestHash[:], d.take(len(r.RequestHash)))
	if !lock {
		if r.Status = int(d.uvarint() % 1000); r.Status == 0 {
			d.fail(errors.New("status is 0"))
		}
		if n := d.uvarint(); n > 0 && d.err == nil {
			r.Header = map[string]string{}
			for i := uint64(0); i < n && d.err == nil; i++ {
				name := string(d.textBytes(d.byte()))
				r.Header[name] = string(d.textBytes(d.byte()))
			}
		}
		switch kind := d.byte(); kind {
		case bodySignal:
		case bodyKept:
			r.Body = append([]byte{}, d.b...)
		case bodyOmitted:
			r.Omitted = true
		default:
			d.fail(fmt.Errorf("body of kind %d is not known", kind))
		}
	}
	if d.err != nil {
		return nil, at, fmt.Errorf("decode reply: %w", d.err)
	}
	return r, at, nil
}
