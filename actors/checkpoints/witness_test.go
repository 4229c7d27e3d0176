package checkpoints

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// signedStore fakes the store of a root log with the given checkpoints.
type signedStore struct {
	checkpoints []*record.Signed
	stored      int
}

func (s *signedStore) Checkpoint(context.Context) (*record.Signed, error) {
	return s.checkpoints[len(s.checkpoints)-1], nil
}

func (s *signedStore) CheckpointAt(_ context.Context, size int64, _ *record.Signed) (*record.Signed, error) {
	if size > int64(len(s.checkpoints)) {
		return nil, signal.NotFound("checkpoint")
	}
	return s.checkpoints[size-1], nil
}

func (s *signedStore) StoreCountersigned(context.Context, record.Countersigned) error {
	s.stored++
	return nil
}

func (*signedStore) Countersigned(context.Context) (map[string]string, error) { return nil, nil }

// TestCheckpointsThatTheRootLogHasLost are not taken from a witness.
func TestCheckpointsThatTheRootLogHasLost(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	log := func(first time.Time, n int) (list []*record.Signed) {
		root := &record.Tree{}
		for i := range n {
			c, _, err := keys.Sign(root, verify.Heads{At: first.Add(time.Duration(i) * time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		return list
	}
	private, public, err := note.GenerateKey(rand.Reader, "witness")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := record.ParseWitnesses([]string{public})
	if err != nil {
		t.Fatal(err)
	}
	own, err := note.NewVerifier(keys.Public()[0])
	if err != nil {
		t.Fatal(err)
	}
	cosigned := func(c *record.Signed) []byte {
		n, err := note.Open(c.Note, note.VerifierList(own))
		if err != nil {
			t.Fatal(err)
		}
		both, err := note.Sign(n, signer)
		if err != nil {
			t.Fatal(err)
		}
		return both
	}
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	store, lost := &signedStore{checkpoints: log(day, 3)}, log(day.Add(time.Hour), 5)
	w := NewWitnesses(store, keys, trusted)
	for name, c := range map[string]*record.Signed{"of another past": lost[1], "longer than the log": lost[4]} {
		if err := w.Add(t.Context(), cosigned(c)); !errors.Is(err, record.ErrLost) || store.stored != 0 {
			t.Errorf("a checkpoint %s: %v", name, err)
		}
	}
	if err := w.Add(t.Context(), cosigned(store.checkpoints[1])); err != nil || store.stored != 1 {
		t.Errorf("its own: %v", err)
	}
}
