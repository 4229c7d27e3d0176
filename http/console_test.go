package http_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/chartalert"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/console"
)

const (
	// maxFirstPage and maxChart limit what a browser loads, compressed, in bytes.
	maxFirstPage = 40_000
	maxChart     = 65_000
)

func TestConsole(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	page := do(t, s, "GET", "/dashboard/", "", "Authorization:")
	policy := page.Header.Get("Content-Security-Policy")
	if page.Status != 200 || page.Header.Get("Cache-Control") != "no-cache" || policy != console.Policy {
		t.Fatalf("the page is answered with %d %v", page.Status, page.Header)
	}
	for _, part := range []string{"default-src 'none';", "script-src 'self';", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %q, want %q in it", policy, part)
		}
	}
	names := regexp.MustCompile(`"/dashboard/([^"]+)"`).FindAllStringSubmatch(page.Body, -1)
	size := small(t, page.Body)
	for _, name := range names {
		a := do(t, s, "GET", "/dashboard/"+name[1], "", "Authorization:")
		if a.Status != 200 || a.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s is answered with %d %v", name[1], a.Status, a.Header)
		}
		size += small(t, a.Body)
	}
	if len(names) < 3 || size > maxFirstPage {
		t.Errorf("the first page has %d files with %d bytes, want at most %d", len(names), size, maxFirstPage)
	}
	for _, path := range []string{"/dashboard/index.html", "/dashboard/nosuch.js", "/dashboard/a/b"} {
		if a := do(t, s, "GET", path, ""); a.Status != 404 || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s is answered with %d %v", path, a.Status, a.Header)
		}
	}
}

// The message that the console shows for alerts is the one that the service understands.
func TestConsoleAlertMessage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("console/src/agents/alert.json")
	if want := chartalert.Template([]string{"my_strategy"}) + "\n"; err != nil || string(text) != want {
		t.Errorf("the console has %s, %v, want %s", text, err, want)
	}
}

// The chart of prices is a file of its own that the page does not name.
func TestConsoleChart(t *testing.T) {
	t.Parallel()
	files, err := console.Files()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range files {
		if strings.HasPrefix(f.Name, "price-") {
			found = true
			if size := small(t, string(f.Text)); size > maxChart {
				t.Errorf("%s has %d bytes, want at most %d", f.Name, size, maxChart)
			}
		}
		if f.Name == console.Index && strings.Contains(string(f.Text), "price-") {
			t.Error("the first page loads the chart")
		}
	}
	if !found {
		t.Error("there is no chart")
	}
}

// small returns the size of a text in gzip.
func small(t *testing.T, text string) int {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// The page of a public record loads a small script, which needs only files beside it.
func TestVerifierOfPublicRecords(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	path := signalhttp.VerifierPath()
	a := do(t, s, "GET", path, "", "Authorization:")
	if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/javascript") {
		t.Fatalf("%q is answered with %d %v", path, a.Status, a.Header)
	}
	size, imports := small(t, a.Body), regexp.MustCompile(`from"\./([^"]+)"`).FindAllStringSubmatch(a.Body, -1)
	for _, name := range imports {
		more := do(t, s, "GET", "/dashboard/"+name[1], "", "Authorization:")
		if size += small(t, more.Body); more.Status != 200 {
			t.Errorf("%s is answered with %d", name[1], more.Status)
		}
	}
	if size > 8_000 || len(imports) != 1 {
		t.Errorf("the script has %d files more, and %d bytes", len(imports), size)
	}
}
