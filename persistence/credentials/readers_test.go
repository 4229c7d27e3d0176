package credentials

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// newReaders returns readers that are not stored, with the names prefix-from to prefix-(from+n-1).
func newReaders(account signal.AccountID, prefix string, from, n int) ([]credential.APIKey, []credential.Digest) {
	readers, digests := storetest.Readers(account, prefix, n)
	for i := range readers {
		readers[i].Name = fmt.Sprintf("%s-%d", prefix, from+i)
	}
	return readers, digests
}

// addReaders stores n readers.
func addReaders(t *testing.T, s *Store, account signal.AccountID, prefix string, from, n int) []credential.APIKey {
	t.Helper()
	readers, digests := newReaders(account, prefix, from, n)
	if err := s.CreateReaders(t.Context(), readers, digests, 10_000); err != nil {
		t.Fatal(err)
	}
	return readers
}

func TestReadersAreReadAsWritten(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	plain, _ := addKey(t, s, a, "plain")
	want := addReaders(t, s, a, "r", 1, 120)
	slices.Reverse(want) // newest first, also within one call
	var got []credential.APIKey
	for offset := 0; offset < 150; offset += 50 {
		page, total, err := s.Readers(ctx, a, 50, offset)
		if err != nil || total != 120 {
			t.Fatalf("%d readers, %v", total, err)
		}
		got = append(got, page...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %d: %v", len(got), got)
	}
	one, err := s.KeyByDigest(ctx, credential.DigestOf("secret"+string(want[7].ID)))
	if err != nil || one != want[7] {
		t.Errorf("%+v, %v", one, err)
	}
	others, err := s.Keys(ctx, a)
	wantEqual(t, "keys", err, []credential.APIKey{plain}, others)
	if list, total, err := s.Readers(ctx, signal.NewAccountID(), 50, 0); err != nil || list == nil || len(list)+total != 0 {
		t.Errorf("readers of an unknown account: %v, %d, %v", list, total, err)
	}
}

func TestReadersAreCreatedAllOrNone(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	addKey(t, s, a, "r-3")
	create := func(from, n, limit int) error {
		readers, digests := newReaders(a, "r", from, n)
		return s.CreateReaders(ctx, readers, digests, limit)
	}
	wantError(t, create(1, 3, 10), signal.KindConflict, "name_taken") // by a key of the other kind
	wantError(t, create(4, 6, 5), signal.KindConflict, "limit_reached")
	if _, total, err := s.Readers(ctx, a, 1, 0); err != nil || total != 0 {
		t.Errorf("refused readers are there: %d, %v", total, err)
	}
	readers, digests := newReaders(a, "r", 4, 3)
	for range 2 { // the same call again makes no others
		if err := s.CreateReaders(ctx, readers, digests, 5); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, create(6, 2, 5), signal.KindConflict, "name_taken")
	wantError(t, create(7, 3, 5), signal.KindConflict, "limit_reached")
	if err := create(7, 2, 5); err != nil {
		t.Error(err)
	}
	k := credential.APIKey{ID: signal.NewKeyID(), Account: a, Name: "r-5", CreatedAt: nowMS()}
	wantError(t, s.CreateKey(ctx, k, credential.DigestOf("k"), 100), signal.KindConflict, "name_taken")
	k.Name = "k"
	if err := s.CreateKey(ctx, k, credential.DigestOf("k"), 2); err != nil {
		t.Errorf("readers count as other keys: %v", err)
	}
	unknown, digests := newReaders(signal.NewAccountID(), "r", 1, 1)
	wantError(t, s.CreateReaders(ctx, unknown, digests, 5), signal.KindNotFound, "not_found")
}

func TestReadersOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	a := addAccount(t, s, "a@example.com").ID
	var created, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			readers, digests := newReaders(a, fmt.Sprint(i), 1, 100)
			if err := s.CreateReaders(context.Background(), readers, digests, 1050); err != nil {
				wantError(t, err, signal.KindConflict, "limit_reached")
				refused.Add(1)
				return
			}
			created.Add(1)
		})
	}
	wg.Wait()
	_, total, err := s.Readers(t.Context(), a, 1, 0)
	if created.Load() != 10 || refused.Load() != 2 || total != 1000 || err != nil {
		t.Errorf("created %d, refused %d, %d are there, %v", created.Load(), refused.Load(), total, err)
	}
}

func TestNamesOfReadersAreFound(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	for _, name := range []string{"r-7", "r-08", "r-", "r--9", "r-9x", "r-999999999999999", "rr-11", "x*-5", "xy-6"} {
		addKey(t, s, a, name)
	}
	addReaders(t, s, a, "r", 2, 3)
	addReaders(t, s, a, `[a-z]?\`, 1, 1)
	for prefix, want := range map[string]int64{"r": 7, "rr": 11, "x*": 5, "x?": 0, "none": 0, `[a-z]?\`: 1, "[r]": 0} {
		if got, err := s.LastNumber(ctx, a, prefix); err != nil || got != want {
			t.Errorf("the last number of %q is %d, %v, want %d", prefix, got, err, want)
		}
	}
	for prefix, want := range map[string]int{"r": 3, "r-": 3, "r-2": 1, "*": 0, "?-": 0, `[a-z]?\`: 1, "": 4} {
		if got, err := s.ReadersNamed(ctx, a, prefix); err != nil || len(got) != want {
			t.Errorf("%q names %d readers, %v, want %d", prefix, len(got), err, want)
		}
	}
}

func TestReadersAreRevoked(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a, b := addAccount(t, s, "a@example.com").ID, addAccount(t, s, "b@example.com").ID
	plain, _ := addKey(t, s, a, "plain")
	readers := addReaders(t, s, a, "r", 1, 3)
	if events, err := s.RevokeReaders(ctx, b, []signal.KeyID{readers[0].ID}, nowMS()); err != nil || len(events) != 0 {
		t.Errorf("another account has revoked %v, %v", events, err)
	}
	_, err := s.RevokeKey(ctx, b, readers[0].ID, nowMS())
	wantError(t, err, signal.KindNotFound, "not_found")
	if events, err := s.RevokeKey(ctx, a, readers[0].ID, nowMS()); err != nil || len(events) != 1 {
		t.Errorf("one reader: %v, %v", events, err)
	}
	// Neither one that has ended nor a key of the other kind is revoked.
	ids := []signal.KeyID{readers[0].ID, readers[2].ID, plain.ID, signal.NewKeyID()}
	events, err := s.RevokeReaders(ctx, a, ids, nowMS())
	if err != nil || len(events) != 1 || events[0].Subject != string(readers[2].ID) || events[0].Type != signal.KeyRevoked {
		t.Errorf("revoked %v, %v", events, err)
	}
	want := []signal.Event{{Account: a, Type: signal.KeyRevoked, Subject: string(readers[0].ID)},
		{Account: a, Type: signal.KeyRevoked, Subject: string(readers[2].ID)}}
	wantEqual(t, "announced", nil, want, outboxOf(t, s))
	left, total, err := s.Readers(ctx, a, 10, 0)
	if err != nil || !slices.Equal(left, readers[1:2]) {
		t.Errorf("left: %v, %v", left, err)
	}
	if keys, err := s.Keys(ctx, a); total != 1 || len(keys) != 1 {
		t.Errorf("%d readers and %d other keys are left, %v", total, len(keys), err)
	}
	addReaders(t, s, a, "r", 3, 1) // its name is free
}

// TestAnAccountIsDeletedWithItsReaders of which one step does not end all.
func TestAnAccountIsDeletedWithItsReaders(t *testing.T) {
	t.Parallel()
	other, server := credentialStore(t)
	a := addAccount(t, other, "a@example.com").ID
	for from := 1; from <= 1100; from += 100 {
		addReaders(t, other, a, "r", from, 100)
	}
	s := openStore(t, redisclient.Options{URL: server.URL()})
	late := func() { addReaders(t, other, a, "late", 1, 1) } // between two of the steps
	nothing := func() {}
	s.RDB.AddHook(&beforeScripts{next: []func(){nothing, nothing, nothing, nothing, late}})
	events, err := s.DeleteAccount(t.Context(), a, nowMS())
	if err != nil || len(events) != 1 || events[0].Type != signal.AccountDeleted {
		t.Fatalf("deleted with %d events, %v", len(events), err)
	}
	wantEqual(t, "announced", nil, []signal.Event{{Account: a, Type: signal.AccountDeleted}}, outboxOf(t, s))
	k := redisclient.NewKeys(1)
	for _, pattern := range []string{k.APIKeyKey("*"), k.ReadersOfKey("*"), k.ReaderIDsKey("*"), k.AccountKey("*")} {
		if left := server.Client().Keys(t.Context(), pattern).Val(); len(left) > 0 {
			t.Errorf("%d of %s are left", len(left), pattern)
		}
	}
}
