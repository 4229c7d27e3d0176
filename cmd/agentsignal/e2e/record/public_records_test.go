package record

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// addClosed appends n signals of an account that have closed, as their owner does, and open ones beside them.
func addClosed(t testing.TB, s *e2e.Service, account signal.AccountID, n, open int, change func(i int, x *signal.Signal)) {
	t.Helper()
	var group sync.WaitGroup
	indexes := make(chan int)
	for range 16 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, 1))
			for i := range indexes {
				x := storetest.Signal(account)
				x.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
				x.ExpiresAt, x.Asset = x.CreatedAt.Add(24*time.Hour), "ACME"
				x.Levels = &signal.Levels{Entry: 100, Stop: 99, Target: 101.5}
				if change != nil {
					change(i, x)
				}
				if _, err := s.Events().Append(t.Context(), storetest.Created(x)); err != nil {
					t.Error(err)
					return
				}
				if i >= n {
					continue
				}
				done := *x
				done.Sequence, done.Metadata, done.FirstConfidence = 2, nil, x.Confidence
				exit, reason := 101.5, signal.TakeProfit
				if random.IntN(5) < 3 {
					exit, reason = 98.9+random.Float64()/10, signal.StopLoss
				}
				closing := strategy.Close(x, strategy.Exit{Reason: reason, Price: exit}, x.CreatedAt.Add(90*time.Second))
				done.Closing = &closing
				if _, err := s.Events().Append(t.Context(), signal.Change{Account: account, Signal: &done,
					Events: []signal.Event{{Type: signal.SignalClosed, Asset: x.Asset, Data: []byte(`{}`)}}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range n + open {
		indexes <- i
	}
	close(indexes)
	group.Wait()
}

// publish shows the record of an account, and returns its account.
func publish(t testing.TB, user *e2e.Client, slug, more string) signal.AccountID {
	t.Helper()
	user.Do(http.MethodPut, "/v1/account/public", `{"slug":"`+slug+`","title":"Record","enabled":true`+more+`}`).Ok(t)
	return e2e.Decode[e2e.AccountJSON](t, user.Get("/v1/account").Ok(t).Body).AccountID
}

// shownJSON is GET /r/{slug}.json as a stranger reads it.
type shownJSON struct {
	Account string `json:"account_id"`
	Totals  struct {
		Created, Closed int64
		Proved          bool
	}
	Kept struct{ Created, Closed int64 }
	No   int64 `json:"no_longer_kept"`

	Agents []struct {
		ID      string `json:"agent_id"`
		Name    string
		Removed bool
		Closed  int64
	}
	Closed []shownSignal `json:"closed_signals"`
	Open   []shownSignal `json:"open_signals"`
	Proof  struct {
		Checkpoint string
		Heads      verify.Entry
		Newest     *verify.Leaf
		Keys       []string
		NotProved  []string `json:"not_proved"`
	}
}

type shownSignal struct {
	Signal          json.RawMessage
	Reasoning       string
	Created, Closed *verify.Leaf
}

func (s *shownSignal) id(t *testing.T) string {
	t.Helper()
	return e2e.Decode[struct {
		ID string `json:"signal_id"`
	}](t, string(s.Signal)).ID
}

// shown returns the record at a slug once it counts so many closed signals and has a proof for them. A page is kept for a
// minute, so each look is at a page of another title.
func shown(t testing.TB, user *e2e.Client, slug, more string, created, closed int64) (r shownJSON) {
	t.Helper()
	n := 0
	e2e.Eventually(t, fmt.Sprintf("the record counts %d signals, %d closed", created, closed), func() bool {
		n++
		user.Do(http.MethodPut, "/v1/account/public", fmt.Sprintf(`{"slug":%q,"title":"Look %d","enabled":true%s}`, slug, n,
			more)).Ok(t)
		r = e2e.Decode[shownJSON](t, user.With("").Get("/r/"+slug+".json").Ok(t).Body)
		return r.Totals.Created == created && r.Totals.Closed == closed && r.Totals.Proved
	})
	return r
}

func TestPublicRecords(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.SigningConfig(t, redistest.New(t).URL()))
	public := s.Client(t)
	ada, _, _ := s.User(t)
	bob, _, _ := s.User(t)
	const hostile = `</td><script>alert('x')</script><b a=\"`
	for _, id := range []string{"living", "removed"} {
		if a := ada.Post("/v1/agents",
			`{"id":"`+id+`","name":"`+hostile+id+`","category":"trading","strategies":["cross"]}`); a.Status != 201 {
			t.Fatal(a.Body)
		}
	}
	if a := ada.Do(http.MethodDelete, "/v1/agents/removed", ""); a.Status != 204 {
		t.Fatal(a.Body)
	}

	// Off by default, and the account's alone.
	if got := ada.Get("/v1/account/public").Ok(t).Body; !strings.HasPrefix(got, `{"slug":null,"title":null,"enabled":false`) {
		t.Errorf("at first: %s", got)
	}
	public.Get("/r/ada-record").Fails(t, "not_found")
	account := publish(t, ada, "ada-record", "")
	bobs := publish(t, bob, "bob-record", "")
	bob.Do(http.MethodPut, "/v1/account/public", `{"slug":"ada-record","title":"x","enabled":true}`).Fails(t, "slug_taken")
	public.Do(http.MethodPut, "/v1/account/public", `{"slug":"x-y-z","title":"x"}`).Fails(t, "missing_credentials")

	reasoning := strings.ReplaceAll(hostile, `\"`, `"`)
	addClosed(t, s, account, 70, 3, func(i int, x *signal.Signal) {
		x.Agent, x.Strategy = "living", "cross"
		if i%7 == 0 {
			x.Agent = "removed"
		}
		if i%5 == 0 {
			x.Asset = "<i>" + strconv.Itoa(i) + "</i>"
		}
		x.Metadata = []byte(`{"source":"stream","reasoning":` + e2e.JsonOf(t, reasoning) + `}`)
	})
	addClosed(t, s, bobs, 1, 0, nil)
	r := shown(t, ada, "ada-record", "", 73, 70)
	if r.Account != string(account) || r.Kept.Created != 73 || r.Kept.Closed != 70 || r.No != 0 || len(r.Closed) != 50 ||
		len(r.Open) != 0 {
		t.Errorf("%+v, %d closed and %d open signals", r.Kept, len(r.Closed), len(r.Open))
	}
	sum, names := int64(0), map[string]string{}
	for _, a := range r.Agents {
		sum += a.Closed
		names[a.ID] = fmt.Sprintf("%s %t", a.Name, a.Removed)
	}
	if want := map[string]string{"living": reasoning + "living false", "removed": " true"}; sum != 70 || !maps.Equal(names,
		want) {
		t.Errorf("the agents have %d closed signals: %q, want %q", sum, names, want)
	}

	// What everyone gets has no element of the account's, and nothing of another account.
	for _, path := range []string{"/r/ada-record", "/r/ada-record/feed.xml", "/r/ada-record/badge.svg"} {
		body := public.Get(path).Ok(t).Body
		if strings.Contains(body, "<b a") || strings.Contains(body, "alert('") || strings.Contains(body, "<i>") ||
			strings.Contains(body, string(bobs)) {
			t.Errorf("%s has what it must not have: %s", path, body)
		}
	}
	page := public.Get("/r/ada-record").Ok(t)
	for _, want := range []string{string(account), "(removed)", html.EscapeString("<i>"),
		"Several accounts of one operator cannot be seen"} {
		if !strings.Contains(page.Body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if feed := public.Get("/r/ada-record/feed.xml").Body; strings.Count(feed, "<entry>") != 50 ||
		!strings.Contains(feed, html.EscapeString(reasoning)) {
		t.Errorf("the feed: %.2000s", feed)
	}
	if open := shown(t, ada, "ada-record", `,"show_open":true`, 73, 70).Open; len(open) != 3 {
		t.Errorf("%d open signals are shown", len(open))
	}

	// A slug leads to one account for ever.
	ada.Do(http.MethodPut, "/v1/account/public", `{"slug":"ada-other","title":"x","enabled":true}`).Ok(t)
	public.Get("/r/ada-other").Ok(t)
	public.Get("/r/ada-record.json").Fails(t, "record_gone")
	ada.Do(http.MethodPut, "/v1/account/public", `{"slug":"ada-other","title":"x"}`).Ok(t)
	public.Get("/r/ada-other").Fails(t, "not_found")
	ada.Do(http.MethodPut, "/v1/account/public", `{"slug":"ada-other","title":"x","enabled":true}`).Ok(t)
	public.Get("/r/ada-other").Ok(t)
	e2e.Must(t, s.Credentials().Accounts.DeleteAccount(t.Context(), account))
	for _, path := range []string{"/r/ada-record", "/r/ada-other", "/r/ada-other.json", "/r/ada-other/badge.svg",
		"/r/ada-other/feed.xml",
		"/r/ada-other/proof/" + r.Closed[0].id(t)} {
		public.Get(path).Fails(t, "record_gone")
		if a := public.Get(path, "Accept: text/html"); a.Status != 410 || !strings.Contains(a.Body, "The record is gone") {
			t.Errorf("%s in a browser: %d %s", path, a.Status, a.Body)
		}
	}
	bob.Do(http.MethodPut, "/v1/account/public", `{"slug":"ada-other","title":"x","enabled":true}`).Fails(t, "slug_taken")
}

// TestAPageOf10000Signals has its first paint in less than 15 KB, and costs no read of Redis for each request.
func TestAPageOf10000Signals(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.SigningConfig(t, redis.URL()))
	ada, _, _ := s.User(t)
	account := publish(t, ada, "ada-record", "")
	const n = 10_000
	addClosed(t, s, account, n, 10, func(i int, x *signal.Signal) { x.Agent = signal.AgentID(fmt.Sprintf("agent_%d", i%30)) })
	r := shown(t, ada, "ada-record", "", n+10, n)
	if len(r.Agents) != 20 || r.Kept.Closed != n {
		t.Errorf("%d agents, %+v", len(r.Agents), r.Kept)
	}
	public := s.Client(t)
	page := public.Get("/r/ada-record", "Accept-Encoding: gzip").Ok(t)
	z, err := gzip.NewReader(strings.NewReader(page.Body))
	e2e.Must(t, err)
	text, err := io.ReadAll(z)
	e2e.Must(t, err)
	t.Logf("the page has %d bytes, %d in gzip", len(text), len(page.Body))
	for _, want := range []string{"10,000", "of 10,010 created", "10 others", "<svg "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if len(page.Body) >= 15_000 {
		t.Errorf("the page has %d bytes in gzip", len(page.Body))
	}

	reads := func() (calls int) {
		for _, command := range []string{"hget", "hmget", "hgetall", "xrange", "get"} {
			m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(redis.Client().Info(t.Context(),
				"commandstats").Val())
			if m != nil {
				more, _ := strconv.Atoi(m[1])
				calls += more
			}
		}
		return calls
	}
	const requests = 5000
	before, hits := reads(), s.Metric(t, "agentsignal_public_record_requests_total", `cache="hit"`)
	for range requests {
		w := &discarded{header: http.Header{}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/r/ada-record", nil)
		e2e.Must(t, err)
		request.RemoteAddr = "127.0.0.1:1"
		s.Server().Handler().ServeHTTP(w, request)
		if w.status != http.StatusOK {
			t.Fatalf("a request is answered with %d", w.status)
		}
	}
	calls, more := reads()-before, s.Metric(t, "agentsignal_public_record_requests_total", `cache="hit"`)-hits
	t.Logf("%d requests: Redis had %d reads of all kinds, and %.0f found the page in the cache", requests, calls, more)
	if calls > requests/2 || more < requests-2 {
		t.Errorf("%d requests: Redis had %d reads, and %.0f found the page", requests, calls, more)
	}
}

// discarded is an answer whose body is not kept.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
