package http_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/recordpage"
)

const nobody = "Authorization:"

func TestPublicRecords(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := newServer(t, &fakes{}, func(o *config) { o.Metrics = signalhttp.NewMetrics(registry) })
	for path, want := range map[string]struct{ mediaType, begins string }{
		"/r/slug":           {"text/html; charset=utf-8", "<!DOCTYPE html>"},
		"/r/slug.json":      {"application/json", `{"slug":"slug","title":"Title","account_id":"` + string(accountID) + `"`},
		"/r/slug/badge.svg": {"image/svg+xml", "<svg "},
		"/r/slug/feed.xml":  {"application/atom+xml", "<?xml "},
	} {
		a := do(t, s, "GET", path+"?utm_source=x", "", nobody)
		if a.Status != 200 || a.Header.Get("Content-Type") != want.mediaType || !strings.HasPrefix(a.Body, want.begins) {
			t.Errorf("%s: %d %s %.100s", path, a.Status, a.Header.Get("Content-Type"), a.Body)
		}
		tag := a.Header.Get("ETag")
		headers := []string{a.Header.Get("Cache-Control"), a.Header.Get("X-Robots-Tag"), a.Header.Get("Content-Security-Policy"),
			a.Header.Get("X-Content-Type-Options")}
		if d := cmp.Diff([]string{"public, no-cache", "noindex", recordpage.Policy, "nosniff"}, headers); d != "" || tag == "" {
			t.Errorf("%s: headers (-want +got), tag %q:\n%s", path, tag, d)
		}
		if again := do(t, s, "GET", path, "", nobody, "If-None-Match: "+tag); again.Status != 304 || again.Body != "" {
			t.Errorf("%s with its tag: %d %s", path, again.Status, again.Body)
		}
		if head := do(t, s, "HEAD", path, "", nobody); head.Status != 200 || head.Body != "" {
			t.Errorf("HEAD %s: %d %s", path, head.Status, head.Body)
		}
		small := do(t, s, "GET", path, "", nobody, "Accept-Encoding: gzip")
		r, err := gzip.NewReader(bytes.NewReader([]byte(small.Body)))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || string(text) != a.Body || small.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s in gzip: %v", path, err)
		}
		if post := do(t, s, "POST", path, "{}", nobody); post.Status != 405 {
			t.Errorf("POST %s: %d", path, post.Status)
		}
	}
	if a := do(t, s, "GET", "/r/slug/proof/"+string(signalID), "", nobody); a.Status != 404 ||
		!strings.Contains(a.Body, "proofs of those that the page shows") {
		t.Errorf("a signal that is not shown: %d %s", a.Status, a.Body)
	}
	// A page is not a record of an account: a credential changes nothing.
	if a := do(t, s, "GET", "/r/slug", "", "Authorization: Bearer wrong"); a.Status != 200 {
		t.Errorf("with a wrong credential: %d", a.Status)
	}
	if n := testutil.CollectAndCount(registry, "agentsignal_public_record_requests_total"); n != 2 {
		t.Errorf("%d series of requests", n)
	}
}

func TestRecordsThatAreNotThere(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	gone := &signal.Error{Kind: signal.KindNotFound, Code: "record_gone", Message: "gone"}
	f.bySlug = func(slug string) (p credential.Publication, err error) {
		switch slug {
		case "gone":
			return p, gone
		case "store":
			return p, signal.Unavailable(errors.New("the store"))
		case "broken":
			return credential.Publication{Slug: slug}, nil
		}
		return p, signal.NotFound("record")
	}
	f.files = func(credential.Publication) (*recordpage.Files, bool, error) { return nil, false, errors.New("secret") }
	s := newServer(t, f)
	for _, c := range []struct {
		slug, code string
		status     int
		page       string
	}{
		{"none", "not_found", 404, "<h1>No record here</h1>"},
		{"No-Slug", "not_found", 404, "<h1>No record here</h1>"},
		{"x", "not_found", 404, "<h1>No record here</h1>"},
		{"gone", "record_gone", 410, "<h1>The record is gone</h1>"},
		{"store", "unavailable", 503, ""},
		{"broken", "internal", 500, ""},
	} {
		for _, path := range []string{"/r/" + c.slug, "/r/" + c.slug + ".json", "/r/" + c.slug + "/badge.svg",
			"/r/" + c.slug + "/proof/" + string(signalID)} {
			a := do(t, s, "GET", path, "", nobody)
			if a.Status != c.status || a.problem(t).Code != c.code || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
			a = do(t, s, "GET", path, "", nobody, "Accept: text/html,application/xhtml+xml")
			if c.page == "" {
				c.page = `{"type":`
			}
			if a.Status != c.status || !strings.Contains(a.Body, c.page) || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s in a browser: %d %s", path, a.Status, a.Body)
			}
			if strings.Contains(a.Body, "secret") {
				t.Errorf("%s shows a cause: %s", path, a.Body)
			}
		}
	}
	for _, slug := range f.forgotten {
		if slug != "none" && slug != "gone" {
			t.Errorf("the files of %s are dropped", slug)
		}
	}
	if len(f.forgotten) == 0 {
		t.Error("no files are dropped")
	}
}

// A flood from one address is refused, and costs nothing: no record is looked for.
func TestPublicRecordsAreLimitedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, in which more would be allowed
		f, asked := &fakes{}, 0
		f.bySlug = func(slug string) (credential.Publication, error) {
			asked++
			return credential.Publication{Account: accountID, Slug: slug, Title: "Title"}, nil
		}
		l := limits.New(nil, limits.Options{})
		s := newServer(t, f, func(o *config) { o.Limits = l })
		answers := map[int]int{}
		for range 2000 {
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/r/slug/badge.svg", nil))
			if answers[w.Code]++; w.Code == 429 && w.Header().Get("Retry-After") == "" {
				t.Fatal("a refusal without a time")
			}
		}
		if d := cmp.Diff(map[int]int{200: 1200, 429: 800}, answers); d != "" || asked != 1200 {
			t.Errorf("answers (-want +got), and %d were looked for:\n%s", asked, d)
		}
		for _, class := range []limits.Class{limits.Reads, limits.Runs} {
			if d := l.Peek(class, string(accountID)); d.Remaining != d.Limit {
				t.Errorf("the account has paid: %+v", d)
			}
		}
	})
}
