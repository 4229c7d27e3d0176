package record

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// algCosignature is the algorithm of cosignature/v1 in the keys of signed notes.
const algCosignature = 4

// errWitnessKey is the error of a key that is of neither form.
var errWitnessKey = errors.New("it is not a public key of the form name+hash+base64")

// ParseWitness reads the public key of a witness: of cosignature/v1 (C2SP tlog-cosignature), which
// also signs when the witness saw a checkpoint, or of plain Ed25519 as package note has it.
func ParseWitness(key string) (note.Verifier, error) {
	if v, err := note.NewVerifier(key); err == nil {
		return v, nil
	}
	name, rest, _ := strings.Cut(key, "+")
	id, text, _ := strings.Cut(rest, "+")
	hash, err := strconv.ParseUint(id, 16, 32)
	data, err2 := base64.StdEncoding.DecodeString(text)
	if err != nil || err2 != nil || len(id) != 8 || name == "" || strings.ContainsAny(name, " \t\n") ||
		len(data) != 1+ed25519.PublicKeySize || data[0] != algCosignature {
		return nil, errWitnessKey
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), data...))
	if binary.BigEndian.Uint32(sum[:]) != uint32(hash) {
		return nil, errWitnessKey
	}
	return &cosignature{name, uint32(hash), data[1:]}, nil
}

// cosignature verifies signatures of cosignature/v1.
type cosignature struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// Name implements note.Verifier.
func (c *cosignature) Name() string { return c.name }

// KeyHash implements note.Verifier.
func (c *cosignature) KeyHash() uint32 { return c.hash }

// Verify implements note.Verifier: a signature is the time in eight bytes, and the signature of the
// time and the text.
func (c *cosignature) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	signed := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), msg)
	return ed25519.Verify(c.key, signed, sig[8:])
}

// CosignedAt returns when a witness saw a note by its own clock, or zero if its key signs no time.
func CosignedAt(n *note.Note, w note.Verifier) time.Time {
	if _, ok := w.(*cosignature); !ok {
		return time.Time{}
	}
	for _, s := range n.Sigs {
		if data, err := base64.StdEncoding.DecodeString(s.Base64); isOf(s, w) && err == nil && len(data) >= 12 {
			return time.Unix(int64(binary.BigEndian.Uint64(data[4:])&(1<<40-1)), 0).UTC() // behind the hash of the key
		}
	}
	return time.Time{}
}
