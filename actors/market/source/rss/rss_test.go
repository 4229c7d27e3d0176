package rss

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
)

const rss = `<?xml version="1.0"?><rss version="2.0"><channel><title>Markets</title>
<item><guid>a1</guid><title>Bitcoin &amp; gold  rise</title><description>&lt;p&gt;Both &lt;b&gt;rose&lt;/b&gt;
today.&lt;/p&gt;</description><pubDate>Thu, 02 Jan 2025 14:00:00 GMT</pubDate></item>
<item><link>https://example.com/2</link><title>No time</title></item>
<item><guid>a3</guid><pubDate>Thu, 02 Jan 2025 14:00:00 GMT</pubDate></item>
</channel></rss>`

const atom = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Markets</title>
<entry><id>urn:1</id><title>Corn falls</title><updated>2025-01-02T15:00:00Z</updated><summary>It fell.</summary>
</entry></feed>`

func TestFeedsAreRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 2, 14, 0, 0, 0, time.UTC)
	for text, want := range map[string]Item{
		rss:  {ID: "a1", At: at, Headline: "Bitcoin & gold rise", Text: "Both rose today."},
		atom: {ID: "urn:1", At: at.Add(time.Hour), Headline: "Corn falls", Text: "It fell."},
	} {
		items, err := parse([]byte(text))
		if d := cmp.Diff([]Item{want}, items); d != "" || err != nil {
			t.Errorf("%v\n%s", err, d)
		}
	}
}

func TestOnlyChangesAreRead(t *testing.T) {
	t.Parallel()
	text, version, complete := rss, `"1"`, 0
	url := markettest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == version {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		complete++
		w.Header().Set("ETag", version)
		w.Header().Set("Content-Type", "application/rss+xml; charset=utf-8")
		fmt.Fprint(w, text)
	})
	f := New(url, fetch.New(fetch.Options{Name: Name}))
	for i, n := range []int{1, 0, 0, 1, 0} {
		if i == 3 {
			text, version = atom, `"2"`
		}
		items, err := f.Read(t.Context())
		if err != nil || len(items) != n {
			t.Errorf("read %d: %d items, %v", i, len(items), err)
		}
	}
	if complete != 2 {
		t.Errorf("%d complete answers", complete)
	}
	// After an error the next request is unconditional.
	text, version = rss[:80], `"3"`
	for range 2 {
		if _, err := f.Read(t.Context()); err == nil {
			t.Error("half a feed is read")
		} else if fault, ok := errors.AsType[*fetch.Error](err); !ok || fault.Kind != fetch.Content {
			t.Errorf("%v", err)
		}
	}
	if complete != 4 {
		t.Errorf("%d complete answers", complete)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(rss))
	f.Add([]byte(atom))
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1.1",
		"items":[{"id":"1","title":"x","date_published":"2025-01-02T15:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, _ := parse(data)
		for _, i := range items {
			if i.Headline == "" || len(i.Headline) > maxHeadline || len(i.Text) > maxText {
				t.Errorf("%+v", i)
			}
		}
	})
}
