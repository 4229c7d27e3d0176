package credentials

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func TestKeysAreReadAsWritten(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a, b := addAccount(t, s, "a@example.com").ID, addAccount(t, s, "b@example.com").ID
	first, _ := addKey(t, s, a, "first")
	addKey(t, s, b, "first") // names are unique within an account only
	second := credential.APIKey{ID: signal.NewKeyID(), Account: a, Name: "second", Prefix: "ask_1234",
		Scopes: signal.AllScopes, CreatedAt: first.CreatedAt.Add(time.Second), ExpiresAt: nowMS().Add(time.Minute)}
	if err := s.CreateKey(ctx, second, credential.DigestOf("second"), 100); err != nil {
		t.Fatal(err)
	}
	got, err := s.KeyByDigest(ctx, credential.DigestOf("second"))
	wantEqual(t, "read", err, second, got)
	list, err := s.Keys(ctx, a)
	wantEqual(t, "read", err, []credential.APIKey{second, first}, list)
	_, err = s.KeyByDigest(ctx, credential.DigestOf("unknown"))
	wantError(t, err, signal.KindNotFound, "not_found")
	if list, err := s.Keys(ctx, signal.NewAccountID()); err != nil || list == nil || len(list) != 0 {
		t.Errorf("keys of an unknown account: %v, %v", list, err)
	}
}

func TestKeyNamesAreClaimed(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	k, d := addKey(t, s, a, "name")
	if err := s.CreateKey(ctx, k, d, 100); err != nil {
		t.Errorf("the same call again: %v", err)
	}
	other := k
	other.ID = signal.NewKeyID()
	wantError(t, s.CreateKey(ctx, other, credential.DigestOf("other"), 100), signal.KindConflict, "name_taken")

	events, err := s.RevokeKey(ctx, a, k.ID, nowMS())
	if err != nil || len(events) != 1 {
		t.Fatalf("revoke: %v, %v", events, err)
	}
	want := []signal.Event{{Account: a, Type: signal.KeyRevoked, Subject: string(k.ID)}}
	wantEqual(t, "announced", nil, want, outboxOf(t, s))
	_, err = s.KeyByDigest(ctx, d)
	wantError(t, err, signal.KindNotFound, "not_found")
	_, err = s.RevokeKey(ctx, a, k.ID, nowMS())
	wantError(t, err, signal.KindNotFound, "not_found")
	if err := s.CreateKey(ctx, other, credential.DigestOf("other"), 100); err != nil {
		t.Errorf("the name after revoking: %v", err)
	}
	_, err = s.RevokeKey(ctx, signal.NewAccountID(), other.ID, nowMS())
	wantError(t, err, signal.KindNotFound, "not_found") // another account's
}

func TestKeysOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	a := addAccount(t, s, "a@example.com").ID
	var created, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 110 {
		wg.Go(func() {
			k := credential.APIKey{ID: signal.NewKeyID(), Account: a, Name: fmt.Sprint(i), CreatedAt: nowMS()}
			err := s.CreateKey(context.Background(), k, credential.DigestOf(k.Name), 100)
			if err == nil {
				created.Add(1)
				return
			}
			wantError(t, err, signal.KindConflict, "limit_reached")
			refused.Add(1)
		})
	}
	wg.Wait()
	if created.Load() != 100 || refused.Load() != 10 {
		t.Errorf("created %d, refused %d", created.Load(), refused.Load())
	}
}

func TestNoteKeyUses(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	_, d := addKey(t, s, a, "name")
	gone := credential.DigestOf("gone")
	later := nowMS().Truncate(time.Minute)
	for _, at := range []time.Time{later.Add(-time.Minute), later, later.Add(-2 * time.Minute)} {
		if err := s.NoteKeyUses(ctx, map[credential.Digest]time.Time{d: at, gone: at}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.KeyByDigest(ctx, d)
	if err != nil || !got.LastUsedAt.Equal(later) {
		t.Errorf("last used %v, %v, want %v", got.LastUsedAt, err, later)
	}
	if n := server.Client().Exists(ctx, s.APIKeyKey(gone.String())).Val(); n != 0 {
		t.Error("a use has restored a revoked key")
	}
	many := map[credential.Digest]time.Time{d: later.Add(time.Minute)}
	for i := range 1200 {
		many[credential.DigestOf(fmt.Sprint(i))] = later
	}
	if err := s.NoteKeyUses(ctx, many); err != nil {
		t.Fatal(err)
	}
	if got, err = s.KeyByDigest(ctx, d); err != nil || !got.LastUsedAt.Equal(later.Add(time.Minute)) {
		t.Errorf("among many: last used %v, %v", got.LastUsedAt, err)
	}
}
