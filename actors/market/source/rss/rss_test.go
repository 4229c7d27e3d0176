package rss

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
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

const atomFeed = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Markets</title>
<entry><id>urn:1</id><title>Corn falls</title><updated>2025-01-02T15:00:00Z</updated><summary>It fell.</summary>
</entry></feed>`

func TestFeedsAreRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 2, 14, 0, 0, 0, time.UTC)
	for text, want := range map[string][]Item{
		rss: {
			{ID: "a1", At: at, Headline: "Bitcoin & gold rise", Text: "Both rose today."},
			{ID: "https://example.com/2", Headline: "No time"},
			{ID: "a3", At: at},
		},
		atomFeed: {{ID: "urn:1", At: at.Add(time.Hour), Headline: "Corn falls", Text: "It fell."}},
	} {
		items, excess, err := parse([]byte(text))
		if d := cmp.Diff(want, items); d != "" || excess != 0 || err != nil {
			t.Errorf("%v\n%s", err, d)
		}
	}
	many := strings.Repeat("<item><title>x</title></item>", maxItems+3)
	if items, excess, err := parse([]byte("<rss><channel>" + many + "</channel></rss>")); len(items) != maxItems || excess != 3 {
		t.Errorf("%d items and %d beyond, %v", len(items), excess, err)
	}
}

// TestBytesThatAreNotUTF8 checks that one of them does not cost the whole feed.
func TestBytesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	const feed = `<?xml version="1.0"%s?><rss version="2.0"><channel><item><title>%s</title></item></channel></rss>`
	for _, test := range []struct{ encoding, title, want string }{
		{"", "The Fed\x92s rate", "The Fed\u2019s rate"},
		{"", "caf\xe9 \u20ac5", "caf\u00e9 \u20ac5"},
		{` encoding="UTF-8"`, "\x80 falls \xff", "\u20ac falls \u00ff"},
		{` encoding='windows-1251'`, "\xcd\xe5\xf4\xf2\xfc", "\u041d\u0435\u0444\u0442\u044c"},
		{` encoding="ISO-8859-1"`, "caf\xe9", "caf\u00e9"},
	} {
		items, _, err := parse(fmt.Appendf(nil, feed, test.encoding, test.title))
		if err != nil || len(items) != 1 || items[0].Headline != test.want {
			t.Errorf("%q%s: %v, %v", test.title, test.encoding, items, err)
		}
	}
}

// TestOnlyTagsAreMarkup checks comparisons in headlines, which lose their sense without what stands between < and >.
func TestOnlyTagsAreMarkup(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"S&P 500 <5,000 -> >5,100":                             "S&P 500 <5,000 -> >5,100",
		"Yield <4% and oil >$80: what now":                     "Yield <4% and oil >$80: what now",
		"1 < 2 > 0, a <- b -> c, I <3 gold":                    "1 < 2 > 0, a <- b -> c, I <3 gold",
		"AT&T <T> rises":                                       "AT&T <T> rises",
		"Gold &lt;2,600 &amp; silver":                          "Gold <2,600 & silver",
		"<p>Both <b class=\"x>y\">rose</b>.<br/>Yes</P>":       "Both rose . Yes",
		"A<!-- no --><o:p>b</o:p><x-y z>c":                     "A b c",
		"<script>var x = '<b>'</script>Gold<style>b{}</style>": "Gold",
		"Oil <80":               "Oil <80",
		"Gold <silver and more": "Gold <silver and more",
		"Gold <a href=":         "Gold",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
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
	for i, n := range []int{3, 0, 0, 1, 0} {
		if i == 3 {
			text, version = atomFeed, `"2"`
		}
		items, _, err := f.Read(t.Context())
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
		if _, _, err := f.Read(t.Context()); err == nil {
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
	f.Add([]byte(atomFeed))
	f.Add([]byte("<rss><channel><item><title>Fed\x92s <b> &lt;4 -> </title></item></channel></rss>"))
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1.1",
		"items":[{"id":"1","title":"x","date_published":"2025-01-02T15:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, _, _ := parse(data)
		for _, i := range items {
			if len(i.Headline) > maxHeadline || len(i.Text) > maxText {
				t.Errorf("%+v", i)
			}
		}
	})
}
