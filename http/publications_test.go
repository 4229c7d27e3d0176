package http_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/recordpage"
)

type publicationFakes struct {
	publish     func(credential.Publication) error
	publication credential.Publication
	bySlug      func(slug string) (credential.Publication, error)
	files       func(p credential.Publication) (*recordpage.Files, bool, error)
	forgotten   []string
}

type fakePublications struct{ *fakes }

func (f fakePublications) Publish(_ context.Context, p credential.Publication) error {
	return fail1(f.publish, p)
}

func (f fakePublications) Publication(_ context.Context, account signal.AccountID) (credential.Publication, error) {
	p := f.publication
	p.Account = account
	return p, nil
}

func (f fakePublications) PublicationBySlug(_ context.Context, slug string) (credential.Publication, error) {
	return call1(f.bySlug, credential.Publication{Account: accountID, Slug: slug, Title: "Title", Enabled: true}, slug)
}

func (f fakePublications) Get(_ context.Context, p credential.Publication) (*recordpage.Files, bool, error) {
	if f.files == nil {
		files, err := newFiles(p)
		return files, true, err
	}
	return f.files(p)
}

func (f fakePublications) Forget(slug string) { f.forgotten = append(f.forgotten, slug) }

// newFiles returns the files of a record without signals.
func newFiles(p credential.Publication) (*recordpage.Files, error) {
	return (&recordpage.Renderer{Keys: []string{"name+1a2b3c4d+AAAA"}}).Render(&publicrecord.Record{Account: p.Account,
		Since: morning, All: backtest.Summarize(nil)}, p)
}

// fail1 is fail2 for one argument.
func fail1[A any](f func(A) error, a A) error {
	if f == nil {
		return nil
	}
	return f(a)
}

const byJWT = "Authorization: Bearer jwt"

func TestAccountsPublishTheirRecord(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var stored credential.Publication
	f.publish = func(p credential.Publication) error {
		stored = p
		return nil
	}
	s := newServer(t, f)
	const off = `{"slug":null,"title":null,"enabled":false,"show_open":false,"url":null,"notice":"While it is enabled,`
	if a := do(t, s, "GET", "/v1/account/public", "", byJWT); a.Status != 200 || !strings.HasPrefix(a.Body, off) {
		t.Errorf("before it is set: %d %s", a.Status, a.Body)
	}
	for body, want := range map[string]credential.Publication{
		`{"slug":"my-signals","title":" <b>Mine</b> ","enabled":true,"show_open":true}`: {Account: accountID,
			Slug: "my-signals", Title: "<b>Mine</b>", Enabled: true, ShowOpen: true},
		`{"slug":"abc","title":"x","enabled":null}`: {Account: accountID, Slug: "abc", Title: "x"},
	} {
		a := do(t, s, "PUT", "/v1/account/public", body, byJWT)
		if d := cmp.Diff(want, stored); a.Status != 200 || d != "" {
			t.Errorf("%s: %d %s (-want +got):\n%s", body, a.Status, a.Body, d)
		}
		f.publication = stored
		if read := do(t, s, "GET", "/v1/account/public", "", byJWT); read.Body != a.Body ||
			!strings.Contains(a.Body, `"url":"http://example.com/r/`+want.Slug+`"`) ||
			!strings.Contains(a.Body, "the id of the account and the salt of its leaves, which cannot be taken back") {
			t.Errorf("read: %s, set: %s", read.Body, a.Body)
		}
	}
	for _, method := range []string{"GET", "PUT"} {
		if a := do(t, s, method, "/v1/account/public", `{"slug":"abc","title":"x"}`); a.Status != 401 ||
			a.problem(t).Code != "jwt_required" {
			t.Errorf("%s with a key: %d %s", method, a.Status, a.Body)
		}
	}
}

func TestPublicationsAreChecked(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.publish = func(credential.Publication) error { t.Error("stored"); return nil }
	s := newServer(t, f)
	for body, want := range map[string][]string{
		`{}`:                              {"body /slug required", "body /title required"},
		`{"slug":"ab","title":"x"}`:       {"body /slug invalid_format"},
		`{"slug":"Abc","title":"x"}`:      {"body /slug invalid_format"},
		`{"slug":"1abc","title":"x"}`:     {"body /slug invalid_format"},
		`{"slug":"a/b","title":"x"}`:      {"body /slug invalid_format"},
		`{"slug":"abc.json","title":"x"}`: {"body /slug invalid_format"},
		`{"slug":"` + strings.Repeat("a", 41) + `","title":"x"}`:   {"body /slug invalid_format"},
		`{"slug":"admin","title":"x"}`:                             {"body /slug invalid_value"},
		`{"slug":"abc","title":"  "}`:                              {"body /title too_short"},
		`{"slug":"abc","title":"` + strings.Repeat("ä", 81) + `"}`: {"body /title too_long"},
		`{"slug":"abc","title":"a\nb"}`:                            {"body /title invalid_format"},
		`{"slug":"abc","title":"x","enabled":1,"show_open":"yes","more":1}`: {"body /enabled invalid_type",
			"body /show_open invalid_type", "body /more unknown_field"},
	} {
		a := do(t, s, "PUT", "/v1/account/public", body, byJWT)
		if d := cmp.Diff(want, a.faults(t)); a.Status != 400 || d != "" {
			t.Errorf("%s: %d (-want +got):\n%s", body, a.Status, d)
		}
	}
	for _, code := range []string{"slug_taken", "limit_reached"} {
		f.publish = func(credential.Publication) error {
			return &signal.Error{Kind: signal.KindConflict, Code: code, Message: "no"}
		}
		if a := do(t, s, "PUT", "/v1/account/public", `{"slug":"abc","title":"x"}`, byJWT); a.Status != 409 ||
			a.problem(t).Code != code {
			t.Errorf("%s: %d %s", code, a.Status, a.Body)
		}
	}
}
