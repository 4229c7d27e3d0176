package credentials

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// panickingStore panics at the first key.
type panickingStore struct {
	*memory
	asked int
}

func (s *panickingStore) KeyByDigest(ctx context.Context, d credential.Digest) (credential.APIKey, error) {
	if s.asked++; s.asked == 1 {
		panic("at a record")
	}
	return s.memory.KeyByDigest(ctx, d)
}

func TestALookupThatPanicsFailsAndTheNextIsAnswered(t *testing.T) {
	t.Parallel()
	m := &memory{}
	s := New(&panickingStore{memory: m}, &eventLog{}, testKeys(), Options{})
	secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
	if _, err := s.Authenticator.Authenticate(t.Context(), secret); !errors.Is(err, panics.ErrPanicked) {
		t.Errorf("the question that panicked ends with %v", err)
	}
	if _, err := s.Authenticator.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// panickingMaintenance panics at the first recorded use and the first read of events.
type panickingMaintenance struct {
	*memory
	noted, read int
}

func (s *panickingMaintenance) NoteKeyUses(ctx context.Context, uses map[credential.Digest]time.Time) error {
	if s.noted++; s.noted == 1 {
		panic("at a use")
	}
	return s.memory.NoteKeyUses(ctx, uses)
}

func (s *panickingMaintenance) Unsettled(ctx context.Context, before time.Time, limit int) ([]signal.Event, error) {
	if s.read++; s.read == 1 {
		panic("at an event")
	}
	return s.memory.Unsettled(ctx, before, limit)
}

// panickingEvents panics at the first event that is appended.
type panickingEvents struct {
	eventLog
	appended int
}

func (l *panickingEvents) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	if l.appended++; l.appended == 1 {
		panic("at an append")
	}
	return l.eventLog.Append(ctx, c)
}

func TestMaintenanceGoesOnAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, events := &memory{}, &panickingEvents{}
		m.unsettled = []signal.Event{{ID: "evt_1", Type: signal.KeyRevoked, Account: "acc_1"},
			{ID: "evt_2", Type: signal.KeyRevoked, Account: "acc_2"}}
		store := &panickingMaintenance{memory: m}
		s := New(store, events, testKeys(), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		for range 2 { // the uses of the first call are lost
			secret := m.addKey(credential.APIKey{ID: signal.NewKeyID(), Account: "acc_1"})
			if _, err := s.Authenticator.Authenticate(t.Context(), secret); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(m.uses) != 1 || store.read < 2 || len(m.settled) == 0 || m.settled[0].ID != "evt_2" {
			t.Errorf("%d uses are noted, events are read %d times, settled are %v", len(m.uses), store.read, m.settled)
		}
	})
}
