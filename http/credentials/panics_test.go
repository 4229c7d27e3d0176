package credentials

import (
	"context"
	"errors"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// panickingStore panics at the first key.
type panickingStore struct {
	*memory
	asked int
}

func (s *panickingStore) KeyByDigest(ctx context.Context, d signal.Digest) (signal.APIKey, error) {
	if s.asked++; s.asked == 1 {
		panic("at a record")
	}
	return s.memory.KeyByDigest(ctx, d)
}

func TestALookupThatPanicsFailsAndTheNextIsAnswered(t *testing.T) {
	t.Parallel()
	m := &memory{}
	s := New(&panickingStore{memory: m}, &eventLog{}, testKeys(), Options{})
	secret := m.addKey(signal.APIKey{ID: "key_1", Account: "acc_1"})
	if _, err := s.Authenticate(t.Context(), secret); !errors.Is(err, signal.ErrPanicked) {
		t.Errorf("the question that panicked ends with %v", err)
	}
	if _, err := s.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
