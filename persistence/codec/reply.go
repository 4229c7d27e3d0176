package codec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// ReplyDigest returns the name of a request's key in the keys of Redis.
func ReplyDigest(k *signal.ReplyKey) string {
	h := sha256.New()
	for _, s := range []string{k.Method, k.Path, k.Key} {
		h.Write(AppendString(nil, s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// AppendReplyLock appends the value of a locked key. Earlier builds wrote no claim and ignore it.
func AppendReplyLock(b []byte, k *signal.ReplyKey) []byte {
	return append(append(append(b, Version), k.RequestHash[:]...), k.Claim...)
}

// AppendReply appends a reply. In Redis a position stands in front, which a lock does not
// have.
func AppendReply(b []byte, r *signal.Reply) []byte {
	b = append(append(b, Version), r.RequestHash[:]...)
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = binary.AppendUvarint(b, uint64(len(r.Header)))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
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

// Kinds of a reply's body.
const (
	bodySignal  = 0 // the signal at its position
	bodyKept    = 1 // the bytes that follow
	bodyOmitted = 2
)

// DecodeReply reads the value of a key. The reply of a lock has the status 0 and its claim.
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
	copy(r.RequestHash[:], d.Take(sha256.Size))
	if lock {
		r.Claim = string(d.B)
	} else {
		decodeAnswer(&d, r)
	}
	if d.Err != nil {
		return nil, at, fmt.Errorf("decode reply: %w", d.Err)
	}
	return r, at, nil
}

// decodeAnswer reads the part of a reply that a lock does not have.
func decodeAnswer(d *Decoder, r *signal.Reply) {
	if r.Status = int(d.Uvarint() % 1000); r.Status == 0 {
		d.Fail(errors.New("status is 0"))
	}
	if n := d.Uvarint(); n > 0 && d.Err == nil {
		r.Header = map[string]string{}
		for ; n > 0 && d.Err == nil; n-- {
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
