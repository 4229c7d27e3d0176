package record

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// maxKeys bounds the keys that sign at a time: the present one and those that it replaces.
const maxKeys = 5

// SigningPartition is the partition whose owner signs checkpoints.
const SigningPartition = 0

// Keys sign checkpoints, all of them each one. They have one name, that of the service.
type Keys struct {
	signers   []note.Signer
	verifiers []string
}

// NewKey makes a key in the form that ParseKeys reads: that of golang.org/x/mod/sumdb/note. The
// name of the first key of a service is random; a later one takes the name of the first.
func NewKey(name string) (string, error) {
	if name == "" {
		random := make([]byte, 8)
		if _, err := rand.Read(random); err != nil {
			return "", err
		}
		name = "agentsignal-" + hex.EncodeToString(random)
	}
	private, _, err := note.GenerateKey(rand.Reader, name)
	return private, err
}

// ParseKeys reads keys, one or more separated by commas or white space, the present one first.
// Errors do not contain keys.
func ParseKeys(list string) (*Keys, error) {
	k := &Keys{}
	for i, text := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		signer, err := note.NewSigner(text)
		if err != nil {
			return nil, fmt.Errorf("key %d is not an Ed25519 key of the form PRIVATE+KEY+name+hash+base64: "+
				"take the file record.key that a service has made", i+1)
		}
		if k.Name() != "" && signer.Name() != k.Name() {
			return nil, fmt.Errorf("key %d has the name %q, the first one %q: "+
				"give all keys the name of the first", i+1, signer.Name(), k.Name())
		}
		public, err := publicKey(text)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		k.signers, k.verifiers = append(k.signers, signer), append(k.verifiers, public)
	}
	if len(k.signers) == 0 || len(k.signers) > maxKeys {
		return nil, fmt.Errorf("there are %d keys, want 1 to %d", len(k.signers), maxKeys)
	}
	return k, nil
}

// publicKey returns the public part of a key that note.NewSigner has accepted.
func publicKey(private string) (string, error) {
	parts := strings.SplitN(private, "+", 5) // PRIVATE, KEY, name, hash, base64
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("it has no Ed25519 seed")
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("it has no public key")
	}
	return note.NewEd25519VerifierKey(parts[2], public)
}

// Name returns the name of the keys: the origin of the checkpoints.
func (k *Keys) Name() string {
	if len(k.signers) == 0 {
		return ""
	}
	return k.signers[0].Name()
}

// Public returns the public keys, the present one first, in the form that note.NewVerifier reads.
func (k *Keys) Public() []string { return k.verifiers }

// Sign adds an entry to the root log of tree. It returns the checkpoint that ends with it, its signed
// note, the proof of the entry, and what must be stored of the tree.
func (k *Keys) Sign(root *Tree, heads verify.Heads) (*Signed, []Piece, error) {
	s := &Signed{Entry: verify.Entry{Text: heads.Text(), Proof: root.nextProof()}}
	pieces := root.Append([]tlog.Hash{tlog.RecordHash([]byte(s.Entry.Text))})
	head, err := root.Head()
	if err != nil {
		return nil, nil, err
	}
	s.Checkpoint = &verify.Checkpoint{Origin: k.Name(), Root: head, Heads: heads}
	s.Note, err = note.Sign(&note.Note{Text: s.Checkpoint.Text()}, k.signers...)
	return s, pieces, err
}

// Signed is a checkpoint with its signed note and the proof of its last entry.
type Signed struct {
	*verify.Checkpoint
	Note  []byte
	Entry verify.Entry
}

// signedJSON is the stored form of a Signed.
type signedJSON struct {
	Note  string       `json:"checkpoint"`
	Entry verify.Entry `json:"heads"`
}

// MarshalJSON implements json.Marshaler.
func (s *Signed) MarshalJSON() ([]byte, error) {
	return json.Marshal(signedJSON{string(s.Note), s.Entry})
}

// UnmarshalJSON implements json.Unmarshaler. It does not check the signatures.
func (s *Signed) UnmarshalJSON(data []byte) error {
	var stored signedJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	c, err := ReadCheckpoint([]byte(stored.Note))
	if err == nil {
		err = c.ReadHeads(&stored.Entry)
	}
	*s = Signed{Checkpoint: c, Note: []byte(stored.Note), Entry: stored.Entry}
	return err
}

// Rollback is the entry of the root log that records an accepted loss of later entries.
type Rollback struct {
	Origin string    `json:"origin"` // of the record
	At     time.Time `json:"at"`     // when it was accepted
	Lost   int64     `json:"lost"`   // the size that the root log had
	Root   tlog.Hash `json:"root"`   // the root that it had then
	Entry  int64     `json:"entry"`  // its number in the root log, from 1; 0 while it has none
}

// Text returns the text of the entry.
func (r *Rollback) Text() string {
	return fmt.Sprintf("rollback\ntime %s\nlost %d %v\n", r.At.UTC().Format(time.RFC3339), r.Lost, r.Root)
}

// ReadCheckpoint reads a checkpoint that the service itself has stored, without its heads. It does
// not check the signatures.
func ReadCheckpoint(signed []byte) (*verify.Checkpoint, error) {
	end := bytes.Index(signed, []byte("\n\n"))
	if end < 0 {
		return nil, fmt.Errorf("%w: it has no signature", verify.ErrNote)
	}
	return verify.Parse(string(signed[:end+1]))
}
