package credentials

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

var shown = credential.Publication{Account: "acc_1", Slug: "slug", Title: "title", Enabled: true}

// isShown reports whether the record at a slug is shown. Errors other than KindNotFound fail the test.
func isShown(t *testing.T, s *Service, slug string) bool {
	t.Helper()
	p, err := s.Authenticator.PublicationBySlug(context.Background(), slug)
	if err != nil && signal.KindOf(err) != signal.KindNotFound {
		t.Error(err)
	}
	if err == nil && p != shown {
		t.Errorf("the publication is %+v", p)
	}
	return err == nil
}

// Another process than the one that has made the change shows it at most a second later, whatever it hears.
func TestPublicationsHoldASecond(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		if isShown(t, s, "slug") {
			t.Error("a record is shown before it is public")
		}
		m.do(func() { m.publication = shown })
		time.Sleep(fresh)
		m.counted()
		for range 100 {
			if !isShown(t, s, "slug") || isShown(t, s, "other") {
				t.Fatal("another record is shown")
			}
		}
		if n := m.counted(); n != 2 {
			t.Errorf("200 requests ask the store %d times", n)
		}
		m.do(func() { m.publication.Enabled = false })
		for range 20 { // in use, so that it is renewed beside the requests
			time.Sleep(fresh / 20)
			isShown(t, s, "slug")
		}
		if isShown(t, s, "slug") {
			t.Error("a record is shown a second after it was switched off")
		}
		m.do(func() { m.err = signal.Unavailable(errors.New("gone")) })
		time.Sleep(fresh)
		if _, err := s.Authenticator.PublicationBySlug(t.Context(), "slug"); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("without the store: %v", err)
		}
	})
}

func TestChangedPublicationsAreShownAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		for _, enabled := range []bool{true, false, true} {
			to := shown
			to.Enabled = enabled
			if err := s.Publications.Publish(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			if isShown(t, s, "slug") != enabled {
				t.Errorf("the record is not shown as it was set: enabled %t", enabled)
			}
		}
		m.do(func() { m.publication = credential.Publication{} })
		s.Authenticator.Forget([]signal.Event{{Account: "acc_2", Type: signal.AccountDeleted}})
		if !isShown(t, s, "slug") {
			t.Error("the deletion of another account is taken for that of this one")
		}
		s.Authenticator.Forget([]signal.Event{{Account: shown.Account, Type: signal.AccountDeleted}})
		if isShown(t, s, "slug") {
			t.Error("the record of a deleted account is shown")
		}
	})
}

func TestSlugsThatAreGone(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	p := credential.Publication{Account: a.ID, Slug: "first", Title: "title", Enabled: true}
	for _, slug := range []string{"first", "second"} {
		p.Slug = slug
		if err := s.Publications.Publish(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Authenticator.PublicationBySlug(t.Context(), slug); err != nil || got != p {
			t.Errorf("%s: %+v, %v", slug, got, err)
		}
	}
	_, err := s.Authenticator.PublicationBySlug(t.Context(), "first")
	wantCode(t, err, "record_gone")
	if err := s.Accounts.DeleteAccount(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second answer is remembered
		_, err = s.Authenticator.PublicationBySlug(t.Context(), "second")
		wantCode(t, err, "record_gone")
	}
	if got, err := s.Publications.Publication(t.Context(), s.register(t, "b@example.com").ID); err != nil || got.Slug != "" {
		t.Errorf("of another account: %+v, %v", got, err)
	}
}
