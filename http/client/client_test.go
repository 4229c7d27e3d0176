package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// record is what a server has got so far.
type record[T any] struct {
	mu   sync.Mutex
	list []T
}

// add adds v and returns how many there are.
func (r *record[T]) add(v T) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, v)
	return len(r.list)
}

// all returns a copy.
func (r *record[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// sent is a request that a server got.
type sent struct{ target, body, auth, kind, key string }

// answers serves requests with the answers, one after the other and the last one again and again, to a
// client that does not wait. It returns the client, the requests, and the pauses between them.
func answers(t *testing.T, all ...func(http.ResponseWriter)) (*Client, *record[sent], *record[time.Duration]) {
	t.Helper()
	requests, pauses := &record[sent]{}, &record[time.Duration]{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := requests.add(sent{r.URL.RequestURI(), string(body), r.Header.Get("Authorization"),
			r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key")})
		all[min(n, len(all))-1](w)
	}))
	t.Cleanup(s.Close)
	return impatient(t, s.URL, pauses), requests, pauses
}

// impatient returns a client of a service that notes its pauses in place of waiting.
func impatient(t *testing.T, address string, pauses *record[time.Duration]) *Client {
	t.Helper()
	u, err := ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	c := New(u, "key")
	c.Sleep = func(ctx context.Context, d time.Duration) bool {
		pauses.add(d)
		return ctx.Err() == nil
	}
	return c
}

func status(code int, after, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// hangUp breaks the connection in place of an answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func TestReadsAreRepeatedWhileTheServiceAsksForIt(t *testing.T) {
	t.Parallel()
	c, requests, pauses := answers(t, hangUp, status(429, "7", "{}"), status(503, "15", ""), status(502, "", "<html>"),
		status(200, "", "[1]"))
	body, err := c.Get(t.Context(), "/v1/x?a=1")
	if string(body) != "[1]" || err != nil {
		t.Fatalf("%s, %v", body, err)
	}
	for _, r := range requests.all() {
		if want := (sent{target: "/v1/x?a=1", auth: "Bearer key"}); r != want {
			t.Errorf("requested by %+v", r)
		}
	}
	if p := pauses.all(); len(p) != 4 || p[0] < minPause/2 || p[0] > 2*minPause || p[1] != 7*time.Second ||
		p[2] != 15*time.Second || p[3] > DefaultMaxPause {
		t.Errorf("pauses %v", p)
	}
}

func TestRequestsEnd(t *testing.T) {
	t.Parallel()
	c, _, pauses := answers(t, status(503, "", ""))
	if _, err := c.Get(t.Context(), "/v1/x"); err == nil || !strings.Contains(err.Error(), "given up after 5 attempts") ||
		len(pauses.all()) != DefaultAttempts-1 {
		t.Errorf("%v after %d pauses", err, len(pauses.all()))
	}
	for _, row := range []struct {
		code              int
		after, body, want string
	}{
		{401, "", `{"code":"invalid_token","detail":"It is not valid."}`, "refuses the key (401): It is not valid."},
		{403, "15", "<html>", "refuses the request (403): Forbidden"},
		{404, "", `{"code":"not_found","detail":"no such signal"}`, "(404): no such signal"},
		{404, "", "404 page not found", "no agentsignal answers at"},
		{301, "", "", "no agentsignal answers at"},
		{400, "", `{"code":"invalid_request","detail":"2 values","errors":[{"pointer":"/asset","detail":"is required"},` +
			`{"parameter":"limit","detail":"must be less"}]}`, "(400): /asset: is required; limit: must be less"},
		{400, "", "Client sent an HTTP request to an HTTPS server.", "is a port for HTTPS: give https://"},
		{429, "86400", `{"code":"account_locked","detail":"locked"}`, "answers 429: locked"},
		{500, "", `{"code":"internal","detail":"unexpected"}`, "answers 500: unexpected"},
		{200, "", strings.Repeat("x", maxAnswer+1), "more than 4194304 bytes"},
	} {
		c, _, pauses := answers(t, status(row.code, row.after, row.body))
		_, err := c.Get(t.Context(), "/v1/x?a=1")
		if err == nil || !strings.Contains(err.Error(), row.want) || len(pauses.all()) > 0 {
			t.Errorf("%d: %v after %d pauses", row.code, err, len(pauses.all()))
		}
		p, ok := errors.AsType[*Problem](err)
		if strings.Contains(row.body, `"code"`) && (!ok || p.Status != row.code || !strings.Contains(row.body, p.Code)) {
			t.Errorf("%d: the error is %#v", row.code, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, _, _ = answers(t, status(503, "", ""))
	c.Sleep = func(context.Context, time.Duration) bool { cancel(); return false }
	if _, err := c.Get(ctx, "/v1/x"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// Changes take effect once: those that the service knows again by their key are repeated, others only
// where the service refused them.
func TestChangesAreRepeatedOnlyWithAKey(t *testing.T) {
	t.Parallel()
	c, requests, _ := answers(t, hangUp, status(503, "", ""), status(409, "1", `{"code":"idempotency_in_progress"}`),
		status(200, "", `{"signal_id":"sig_1","confidence":0.5,"new_member":1}`))
	made, err := c.Run(t.Context(), "trading", RunRequest{Asset: "BTC", Strategy: "momentum"})
	if err != nil || made.ID != "sig_1" || made.Confidence != .5 || !strings.Contains(string(made.JSON), "new_member") {
		t.Fatalf("%+v, %v", made, err)
	}
	keys := map[string]bool{}
	for _, r := range requests.all() {
		keys[r.key] = true
		if r.body != `{"asset":"BTC","strategy":"momentum"}` || r.kind != "application/json" {
			t.Errorf("sent %+v", r)
		}
	}
	if len(requests.all()) != 4 || len(keys) != 1 || keys[""] {
		t.Errorf("%d requests with the keys %v", len(requests.all()), keys)
	}

	for _, failure := range []func(http.ResponseWriter){hangUp, status(503, "1", "")} {
		c, requests, _ = answers(t, failure, status(200, "", `{"job_id":"job_1"}`))
		if j, err := c.StartScan(t.Context(), "trading", ScanRequest{}); err == nil || len(requests.all()) != 1 ||
			requests.all()[0].key != "" {
			t.Errorf("%d scans are started: %v, %v", len(requests.all()), j, err)
		}
	}
	c, _, _ = answers(t, status(429, "1", ""), status(200, "", `{"job_id":"job_1"}`))
	if j, err := c.StartScan(t.Context(), "trading", ScanRequest{}); err != nil || j.ID != "job_1" {
		t.Errorf("a scan that was refused: %v, %v", j, err)
	}
	c, _, _ = answers(t, hangUp, status(404, "", `{"code":"not_found"}`))
	if err := c.RemoveWebhook(t.Context(), "whk_1"); err != nil {
		t.Errorf("a webhook that the first request removed: %v", err)
	}
	c, _, _ = answers(t, status(404, "", `{"code":"not_found"}`))
	if err := c.RemoveWebhook(t.Context(), "whk_1"); err == nil {
		t.Error("a webhook that does not exist is removed")
	}
}

// Lists are read page by page: items that come in meanwhile move others, and none is returned twice.
func TestListsGoOnPageByPage(t *testing.T) {
	t.Parallel()
	var list []string // the newest first
	for i := range 230 {
		list = append(list, fmt.Sprintf(`{"schedule_id":"%d"}`, 229-i))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		end := min(offset+limit, len(list))
		fmt.Fprintf(w, `{"schedules":[%s],"total":%d,"has_more":%t}`, strings.Join(list[min(offset, end):end], ","),
			len(list), end < len(list))
		list = slices.Insert(list, 0, fmt.Sprintf(`{"schedule_id":"new %d"}`, len(list)))
	}))
	t.Cleanup(s.Close)
	c := impatient(t, s.URL, &record[time.Duration]{})
	all, err := Collect(c.Schedules(t.Context()))
	if err != nil || len(all) != 230 || all[0].ID != "229" || all[229].ID != "0" {
		t.Fatalf("%d items, %v", len(all), err)
	}
	n := 0
	for range c.Deliveries(t.Context(), "", "", 7) { // of another name
		n++
	}
	if n != 1 {
		t.Errorf("an answer that is no list gives %d items", n)
	}
	for _, limit := range []int{1, 100, 150} {
		c, requests, _ := answers(t, func(w http.ResponseWriter) {
			fmt.Fprintf(w, `{"jobs":[%s{"job_id":"%d"}],"has_more":true}`, strings.Repeat(`{"job_id":"x"},`, 99), limit)
		}, func(w http.ResponseWriter) { fmt.Fprint(w, `{"jobs":[],"has_more":true}`) })
		if _, err := Collect(c.Jobs(t.Context(), "error", limit)); err != nil {
			t.Error(err)
		}
		want := fmt.Sprintf("/v1/jobs?limit=%d&offset=0&status=error", min(limit, MaxPage))
		if got := requests.all()[0].target; got != want {
			t.Errorf("for %d jobs it asks %s", limit, got)
		}
	}
}

func TestAddressesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for text, want := range map[string]Failure{
		gone.URL: NotListening,
		"https" + strings.TrimPrefix(plain.URL, "http"): NoTLS,
		secure.URL: NotTrusted,
		"http" + strings.TrimPrefix(secure.URL, "https"): NeedsTLS,
		plain.URL: AnotherServer,
	} {
		address, err := ParseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		c := New(address, "")
		c.Attempts = 1
		_, err = c.Get(t.Context(), "/v1/x")
		if e, ok := errors.AsType[*ConnectError](err); !ok || e.Kind != want || Temporary(err) {
			t.Errorf("%s: %#v, %v", text, err, err)
		}
	}
	// An authority that is trusted is so for requests and streams.
	address, _ := ParseAddress(secure.URL)
	c := New(address, "")
	c.Attempts = 1
	c.Trust(secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	_, err := c.Get(t.Context(), "/v1/x")
	_, _, dialled := (&Stream{Client: c}).dial(t.Context(), nil)
	for _, err := range []error{err, dialled} {
		if e, ok := errors.AsType[*ConnectError](err); !ok || e.Kind != AnotherServer {
			t.Errorf("with its authority: %#v", err)
		}
	}
	address, _ = ParseAddress("no-such-host.invalid:81")
	dns := &url.Error{Op: "Get", Err: &net.DNSError{IsNotFound: true}}
	if err := connectError(address, dns, false); err.Error() != `there is no host "no-such-host.invalid"` {
		t.Error(err)
	}
	if !Temporary(&ConnectError{Kind: NotListening, Again: true}) {
		t.Error("a service that answered before is given up")
	}
}

func FuzzProblem(f *testing.F) {
	f.Add(400, []byte(`{"code":"invalid_request","errors":[{"pointer":"/a","detail":"x"}],"status":200}`))
	f.Add(404, []byte("<html>"))
	f.Add(503, []byte(`{"code":1}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		p := readProblem(status, body)
		if p.Status != status || p.Error() == "" || len(p.Detail) > len(body) {
			t.Errorf("%d %q is read as %#v", status, body, p)
		}
	})
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"signals":[{"signal_id":"a","metadata":null}],"total":1,"has_more":false}`))
	f.Add([]byte(`{"signals":[null]}`))
	f.Add([]byte(`{"signals":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		page, err := readPage[Signal](text, "signals")
		if err != nil {
			return
		}
		for _, s := range page.Items {
			if len(s.JSON) == 0 {
				t.Errorf("an item of %q has lost its JSON", text)
			}
		}
	})
}
