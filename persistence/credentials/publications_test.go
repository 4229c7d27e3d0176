package credentials

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func TestPublicationsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	got, err := s.Publication(ctx, a)
	wantEqual(t, "before the first", err, credential.Publication{Account: a}, got)
	for _, want := range []credential.Publication{
		{Account: a, Slug: "first", Title: "<b>First</b>", Enabled: true},
		{Account: a, Slug: "first", Title: "First", ShowOpen: true},
	} {
		if err := s.Publish(ctx, want, 1); err != nil {
			t.Fatal(err)
		}
		got, err = s.Publication(ctx, a)
		wantEqual(t, "of the account", err, want, got)
		got, err = s.PublicationBySlug(ctx, want.Slug)
		wantEqual(t, "by its slug", err, want, got)
	}
	_, err = s.PublicationBySlug(ctx, "other")
	wantError(t, err, signal.KindNotFound, "not_found")
	unknown := signal.NewAccountID()
	_, err = s.Publication(ctx, unknown)
	wantError(t, err, signal.KindNotFound, "not_found")
	wantError(t, s.Publish(ctx, credential.Publication{Account: unknown, Slug: "other"}, 1), signal.KindNotFound, "not_found")
}

func TestSlugsAreNeverFreeAgain(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a, b := addAccount(t, s, "a@example.com").ID, addAccount(t, s, "b@example.com").ID
	publish := func(account signal.AccountID, slug string) error {
		return s.Publish(ctx, credential.Publication{Account: account, Slug: slug, Title: "x", Enabled: true}, 3)
	}
	for _, slug := range []string{"first", "second"} {
		if err := publish(a, slug); err != nil {
			t.Fatal(err)
		}
		wantError(t, publish(b, slug), signal.KindConflict, "slug_taken")
	}
	_, err := s.PublicationBySlug(ctx, "first")
	wantError(t, err, signal.KindNotFound, "record_gone")
	wantError(t, publish(a, "first"), signal.KindConflict, "slug_taken")
	wantError(t, publish(b, "first"), signal.KindConflict, "slug_taken")

	if _, err := s.DeleteAccount(ctx, a, nowMS()); err != nil {
		t.Fatal(err)
	}
	_, err = s.PublicationBySlug(ctx, "second")
	wantError(t, err, signal.KindNotFound, "record_gone")
	wantError(t, publish(b, "second"), signal.KindConflict, "slug_taken")
	for _, slug := range []string{"b-1", "b-2", "b-3"} {
		if err := publish(b, slug); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, publish(b, "b-4"), signal.KindConflict, "limit_reached")
	if err := publish(b, "b-3"); err != nil {
		t.Errorf("the present slug: %v", err)
	}
}

func TestOneOfManyGetsTheSlug(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	var given atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		a := addAccount(t, s, fmt.Sprintf("%d@example.com", i)).ID
		wg.Go(func() {
			if s.Publish(context.Background(), credential.Publication{Account: a, Slug: "one", Title: "x"}, 1) == nil {
				given.Add(1)
			}
		})
	}
	wg.Wait()
	if n := given.Load(); n != 1 {
		t.Errorf("%d accounts with one slug", n)
	}
}
