package codec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// ReplyDigest names a key of a request in the keys of Redis.
func ReplyDigest(k *signal.ReplyKey) string {
	h := sha256.New()
	for _, s := range []string{k.Method, k.Path, k.Key} {
		h.Write(AppendString(nil, s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// AppendReplyLock adds what a locked key holds.
func AppendReplyLock(b []byte, k *signal.ReplyKey) []byte {
	return append(append(b, Version), k.RequestHash[:]...)
}

// AppendReply adds a reply. In Redis a position stands in front, which tells it
// from a lock.
func AppendReply(b []byte, r *signal.Reply) []byte {
	b = append(append(b, Version), r.RequestHash[:]...)
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = binary.AppendUvarint(b, uint64(len(r.Header)))
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = AppendString(AppendString(b, name), r.Header[name])
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

// DecodeReply reads what a key holds. Of a lock, the reply has status 0.
func DecodeReply(value []byte) (*signal.Reply, signal.Position, error) {
	var at signal.Position
	r := &signal.Reply{}
	lock := len(value) > 0 && value[0] == Version
	if !lock {
		var err error
		if at, value, err = CutStamp(value); err != nil {
			return nil, at, fmt.Errorf("decode reply: %w", err)
		}
	}
	d := Decode(value)
	copy(r.RequestHash[:], d.Take(len(r.RequestHash)))
	if !lock {
		if r.Status = int(d.Uvarint() % 1000); r.Status == 0 {
			d.Fail(errors.New("status is 0"))
		}
		if n := d.Uvarint(); n > 0 && d.Err == nil {
			r.Header = map[string]string{}
			for i := uint64(0); i < n && d.Err == nil; i++ {
				name := string(d.TextBytes(d.Byte()))
				r.Header[name] = string(d.TextBytes(d.Byte()))
			}
		}
		switch kind := d.Byte(); kind {
		case bodySignal:
		case bodyKept:
			r.Body = append([]byte{}, d.B...)
		case bodyOmitted:
			r.Omitted = true
		default:
			d.Fail(fmt.Errorf("body of kind %d is not known", kind))
		}
	}
	if d.Err != nil {
		return nil, at, fmt.Errorf("decode reply: %w", d.Err)
	}
	return r, at, nil
}
