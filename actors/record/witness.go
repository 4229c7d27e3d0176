package record

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// MaxWitnesses bounds the trusted witnesses.
const MaxWitnesses = 16

// Errors of Witnesses.Read.
var (
	ErrNotOwn    = errors.New("it has no signature of this service")
	ErrNoWitness = errors.New("it has no signature of a trusted witness")
	ErrLost      = errors.New("the root log does not have this checkpoint any more")
)

// Witnesses are those who may countersign checkpoints.
type Witnesses struct {
	keys      []string
	urls      []string // where each is asked; empty: it posts its signatures itself
	verifiers []note.Verifier
}

// Countersigned is a checkpoint that a witness has signed.
type Countersigned struct {
	Key  string // the public key of the witness
	Size int64  // of the root log
	Root tlog.Hash
	Note []byte // the signed note, with the signatures of the service
}

// ParseWitnesses reads the public keys of witnesses, all different. Behind a key and a space there
// may be the URL at which the witness takes add-checkpoint requests (C2SP tlog-witness).
func ParseWitnesses(list []string) (*Witnesses, error) {
	if len(list) > MaxWitnesses {
		return nil, fmt.Errorf("there are %d keys, want at most %d", len(list), MaxWitnesses)
	}
	w := &Witnesses{}
	for i, item := range list {
		key, address, _ := strings.Cut(item, " ")
		v, err := ParseWitness(key)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		u, err := url.Parse(address)
		if address != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
			return nil, fmt.Errorf("key %d: behind it stands %.80q, which is no address that begins with https://", i+1, address)
		}
		if slices.ContainsFunc(w.verifiers, func(o note.Verifier) bool { return sameKey(o, v) }) {
			return nil, fmt.Errorf("key %d is given twice", i+1)
		}
		w.keys, w.urls, w.verifiers = append(w.keys, key), append(w.urls, address), append(w.verifiers, v)
	}
	return w, nil
}

func sameKey(a, b note.Verifier) bool { return a.Name() == b.Name() && a.KeyHash() == b.KeyHash() }

// Keys returns the public keys.
func (w *Witnesses) Keys() []string { return w.keys }

// URLs returns the addresses of those witnesses that are asked, by their keys.
func (w *Witnesses) URLs() map[string]string {
	urls := map[string]string{}
	for i, key := range w.keys {
		if w.urls[i] != "" {
			urls[key] = w.urls[i]
		}
	}
	return urls
}

// Read returns the checkpoint of a note that the service and one or more witnesses have signed,
// by the key of each witness. It drops all other signatures. Other errors than those above wrap
// verify.ErrNote.
func (w *Witnesses) Read(signed []byte, own *Keys) (map[string]Countersigned, error) {
	ours, err := own.verify()
	if err != nil {
		return nil, err
	}
	n, err := note.Open(signed, note.VerifierList(append(slices.Clone(ours), w.verifiers...)...))
	if _, unknown := errors.AsType[*note.UnverifiedNoteError](err); unknown {
		return nil, ErrNotOwn
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", verify.ErrNote, err)
	}
	c, err := verify.Parse(n.Text)
	if err != nil {
		return nil, err
	}
	var signatures []note.Signature // of the service
	for _, s := range n.Sigs {
		if slices.ContainsFunc(ours, func(v note.Verifier) bool { return isOf(s, v) }) {
			signatures = append(signatures, s)
		}
	}
	if len(signatures) == 0 || c.Origin != own.Name() {
		return nil, ErrNotOwn
	}
	all := make(map[string]Countersigned)
	for i, v := range w.verifiers {
		at := slices.IndexFunc(n.Sigs, func(s note.Signature) bool { return isOf(s, v) })
		if at < 0 {
			continue
		}
		text, err := note.Sign(&note.Note{Text: n.Text, Sigs: append(slices.Clone(signatures), n.Sigs[at])})
		if err != nil {
			return nil, err
		}
		all[w.keys[i]] = Countersigned{Key: w.keys[i], Size: c.Root.N, Root: c.Root.Hash, Note: text}
	}
	if len(all) == 0 {
		return nil, ErrNoWitness
	}
	return all, nil
}

// isOf reports whether a signature is by the key of v.
func isOf(s note.Signature, v note.Verifier) bool { return s.Name == v.Name() && s.Hash == v.KeyHash() }

// verify returns the verifiers of the keys.
func (k *Keys) verify() ([]note.Verifier, error) {
	var list []note.Verifier
	for _, key := range k.verifiers {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Merge returns a signed note with the signatures of those other notes that have the same text.
func Merge(signed []byte, others ...[]byte) []byte {
	text, signatures, ok := bytes.Cut(signed, []byte("\n\n"))
	if !ok {
		return signed
	}
	lines := bytes.SplitAfter(signatures, []byte("\n"))
	merged := slices.Clone(signed)
	for _, other := range others {
		same, more, _ := bytes.Cut(other, []byte("\n\n"))
		if !bytes.Equal(same, text) {
			continue
		}
		for line := range bytes.SplitAfterSeq(more, []byte("\n")) {
			if !slices.ContainsFunc(lines, func(known []byte) bool { return bytes.Equal(known, line) }) {
				lines, merged = append(lines, line), append(merged, line...)
			}
		}
	}
	return merged
}
