package export

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Keys are the public keys of a service, of which one must have signed a checkpoint.
type Keys []note.Verifier

// ParseKeys reads public keys, each given as it is or as @FILE. Keys of a file are separated by
// white space.
func ParseKeys(given []string) (Keys, error) {
	var keys Keys
	for _, text := range given {
		if name, ok := strings.CutPrefix(text, "@"); ok {
			file, err := ReadFile(os.Stdin, name)
			if err != nil {
				return nil, err
			}
			text = string(file)
		}
		for one := range strings.FieldsSeq(text) {
			if strings.HasPrefix(one, "PRIVATE+KEY+") {
				return nil, errors.New("this is the private key: give the public one, which GET /v1/log/key shows")
			}
			v, err := note.NewVerifier(one)
			if err != nil {
				return nil, fmt.Errorf("%.80q is not a public key of the form NAME+HASH+BASE64: "+
					"GET /v1/log/key shows it", one)
			}
			keys = append(keys, v)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("give the public key of the service, which GET /v1/log/key shows")
	}
	return keys, nil
}

// open opens a checkpoint with its heads, and explains why it cannot.
func (k Keys) open(s *signed) (*verify.Checkpoint, error) {
	c, err := k.Open([]byte(s.Checkpoint))
	if err == nil {
		err = c.ReadHeads(&s.Heads)
	}
	return c, err
}

// Open opens a checkpoint, whose heads a note does not have, and explains why it cannot.
func (k Keys) Open(signed []byte) (*verify.Checkpoint, error) {
	c, err := verify.Open(signed, k...)
	if _, forged := errors.AsType[*note.InvalidSignatureError](err); forged {
		return nil, fmt.Errorf("%w: the signature is forged, or the text was changed", err)
	}
	unknown, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok {
		return c, err
	}
	for _, s := range unknown.Note.UnverifiedSigs {
		if s.Name == k[0].Name() {
			return nil, fmt.Errorf("%w: it is signed by another key of that name: forged, "+
				"unless the service has a new key, %s+%08x", err, s.Name, s.Hash)
		}
	}
	return nil, fmt.Errorf("%w: it is of another instance, %.80q, and the key is of %q", err,
		unknown.Note.UnverifiedSigs[0].Name, k[0].Name())
}
