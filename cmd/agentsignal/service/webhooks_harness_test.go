package service

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// testRetries are the delays before retries where a test waits for them.
var testRetries = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond,
	200 * time.Millisecond, 250 * time.Millisecond, 300 * time.Millisecond}

// loopback is the network of the endpoints of tests.
const loopback = "127.0.0.0/8"

// hookConfig is testConfig for a service that delivers to this machine and retries soon.
func hookConfig(tb testing.TB, url string) configs.Config {
	c := testConfig(tb, url)
	c.Webhooks.AllowedNetworks = []string{loopback}
	c.Webhooks.RetrySchedule = nil
	for _, d := range testRetries {
		c.Webhooks.RetrySchedule = append(c.Webhooks.RetrySchedule, configs.Duration(d))
	}
	return c
}

// hookService is a service and its Redis.
type hookService struct {
	*service
	redis *redis.Client
}

// sharedHooks returns a service that tests of webhooks use at once, each with an
// account of its own. It is made for hookConfig.
var sharedHooks = once(func(tb testing.TB) hookService {
	long := lastingTB{tb}
	redis := redistest.New(long)
	return startHooks(long, redis, hookConfig(long, redis.URL()))
})

// startHooks starts a service with prices of BTC. It need not end well: deliveries may be
// in flight.
func startHooks(tb testing.TB, redis *redistest.Server, c configs.Config) hookService {
	tb.Helper()
	s := hookService{begin(tb, c), redis.Client()}
	s.awaitReady(tb)
	newMarket(tb, s.redis).hours("BTC", 400)
	s.awaitPrices(tb, "BTC", signal.H1)
	return s
}

// hookRequest is a request that an endpoint got.
type hookRequest struct {
	Path   string
	Header http.Header
	Body   string
	When   time.Time
	ctx    context.Context // ends when the sender gives up
}

func (a hookRequest) delivery() string { return a.Header.Get("X-Service-Delivery") }
func (a hookRequest) event() string    { return a.Header.Get("Webhook-Id") }
func (a hookRequest) kind() string     { return a.Header.Get("X-Service-Event") }
func (a hookRequest) attempt() int     { n, _ := strconv.Atoi(a.Header.Get("X-Service-Attempt")); return n }

// envelope is the form of every body.
type envelope struct {
	ID         string
	Type       string
	APIVersion string `json:"api_version"`
	CreatedAt  string `json:"created_at"`
	Data       json.RawMessage
}

// verify fails the test if the request is not signed with the secret, by the rules of
// the specification and of Standard Webhooks, or is malformed. It returns its envelope.
func (a hookRequest) verify(tb testing.TB, secret string) envelope {
	tb.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(a.Body))
	if got, want := a.Header.Get("X-Service-Signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want {
		tb.Errorf("X-Service-Signature is %q, want %q", got, want)
	}
	a.verifyStandard(tb, secret)
	for name, want := range map[string]string{"Content-Type": "application/json",
		"User-Agent": "agentsignal/" + Version, "Webhook-Timestamp": a.Header.Get("X-Service-Timestamp")} {
		if got := a.Header.Get(name); got != want {
			tb.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	e := decode[envelope](tb, a.Body)
	if _, ok := signal.ParseDeliveryID(a.delivery()); !ok || e.ID != a.event() || !strings.HasPrefix(e.ID, "evt_") ||
		e.Type != a.kind() || a.attempt() < 1 {
		tb.Errorf("the headers %v do not fit the body %s", a.Header, a.Body)
	}
	if _, err := time.Parse(signal.TimeLayout, e.CreatedAt); err != nil {
		tb.Errorf("created_at: %v", err)
	}
	if _, err := time.Parse(time.DateOnly, e.APIVersion); err != nil {
		tb.Errorf("api_version: %v", err)
	}
	if names := memberNames(tb, a.Body); names != "api_version created_at data id type" {
		tb.Errorf("the envelope has the members %s", names)
	}
	return e
}

// verifyStandard fails the test if the library of Standard Webhooks does not accept
// the request.
func (a hookRequest) verifyStandard(tb testing.TB, secret string) {
	tb.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if !strings.HasPrefix(secret, "whsec_") || err != nil {
		verifier, err = standardwebhooks.NewWebhookRaw([]byte(secret))
	}
	if err != nil {
		tb.Fatalf("make verifier: %v", err)
	}
	if err := verifier.Verify([]byte(a.Body), a.Header); err != nil {
		tb.Errorf("Standard Webhooks: %v: %v", err, a.Header)
	}
}

// memberNames returns the names of a JSON object's members in their order.
func memberNames(tb testing.TB, text string) string {
	tb.Helper()
	var names []string
	for name := range decode[map[string]json.RawMessage](tb, text) {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// hookEndpoint is an endpoint that records its requests.
type hookEndpoint struct {
	tb      testing.TB
	url     string
	answer  func(w http.ResponseWriter, a hookRequest)
	release func() // lets those that hang be answered

	mu       sync.Mutex
	arrivals []hookRequest
}

// newHookEndpoint starts one that answers by the function; nil: 200.
func newHookEndpoint(tb testing.TB, answer func(w http.ResponseWriter, a hookRequest)) *hookEndpoint {
	tb.Helper()
	r := &hookEndpoint{tb: tb, answer: answer}
	server := httptest.NewServer(r)
	r.url = server.URL + "/hook/" + rand.Text() // a port may be that of an earlier server
	tb.Cleanup(server.Close)
	return r
}

// newHangingEndpoint starts one that answers nothing until it is released, with the
// test's end at the latest. From then on it answers 200.
func newHangingEndpoint(tb testing.TB) *hookEndpoint {
	tb.Helper()
	free := make(chan struct{})
	r := newHookEndpoint(tb, func(_ http.ResponseWriter, a hookRequest) {
		select {
		case <-free:
		case <-a.ctx.Done():
		}
	})
	r.release = sync.OnceFunc(func() { close(free) })
	tb.Cleanup(r.release)
	return r
}

// newFailingEndpoint starts one that answers with a status and a body until it is released.
// From then on it answers 200.
func newFailingEndpoint(tb testing.TB, status int, body string) *hookEndpoint {
	tb.Helper()
	var released atomic.Bool
	r := newHookEndpoint(tb, func(w http.ResponseWriter, _ hookRequest) {
		if !released.Load() {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	})
	r.release = func() { released.Store(true) }
	return r
}

// ServeHTTP implements http.Handler.
func (r *hookEndpoint) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil || q.Method != http.MethodPost {
		r.tb.Errorf("an endpoint got %s, %v", q.Method, err)
		return
	}
	a := hookRequest{Path: q.URL.Path, Header: q.Header, Body: string(body), When: time.Now(), ctx: q.Context()}
	r.mu.Lock()
	r.arrivals = append(r.arrivals, a)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, a)
	}
}

// got returns the requests so far.
func (r *hookEndpoint) got() []hookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrivals)
}

// open returns the requests that are neither answered nor given up by the service.
func (r *hookEndpoint) open() []hookRequest {
	return slices.DeleteFunc(r.got(), func(a hookRequest) bool { return a.ctx.Err() != nil })
}

// await waits for n requests, and returns all so far.
func (r *hookEndpoint) await(tb testing.TB, n int) []hookRequest {
	tb.Helper()
	var all []hookRequest
	eventually(tb, fmt.Sprintf("%d requests arrive", n), func() bool {
		all = r.got()
		return len(all) >= n
	})
	return all
}

// byDelivery groups requests by the delivery that they attempt, in their order. The
// attempts of one must be of one event and have one body.
func byDelivery(tb testing.TB, all []hookRequest) map[string][]hookRequest {
	tb.Helper()
	groups := map[string][]hookRequest{}
	for _, a := range all {
		id := a.delivery()
		if before := groups[id]; len(before) > 0 && (before[0].Body != a.Body || before[0].event() != a.event()) {
			tb.Errorf("delivery %s is first %s, then %s", id, before[0].Body, a.Body)
		}
		groups[id] = append(groups[id], a)
	}
	return groups
}

// kinds returns the types of events of requests, sorted.
func kinds(all []hookRequest) []string {
	var list []string
	for _, a := range all {
		list = append(list, a.kind())
	}
	slices.Sort(list)
	return list
}

// signalsIn returns the signals of the requests for signal.created, with how often
// each has come.
func signalsIn(tb testing.TB, all []hookRequest) map[string]int {
	tb.Helper()
	found := map[string]int{}
	for _, a := range all {
		if a.kind() == "signal.created" {
			found[decode[struct{ Data wireSignal }](tb, a.Body).Data.ID]++
		}
	}
	return found
}

// wireWebhook is a webhook as clients see it.
type wireWebhook struct {
	ID             string `json:"webhook_id"`
	URL            string
	Events         []string
	Status         string
	DisabledReason *string `json:"disabled_reason"`
	FailingSince   *string `json:"failing_since"`
	Secret         string
}

// wireDelivery is a delivery as clients see it.
type wireDelivery struct {
	ID             string `json:"delivery_id"`
	Webhook        string `json:"webhook_id"`
	Event          string `json:"event_id"`
	Type           string `json:"event_type"`
	Status         string
	AttemptCount   int        `json:"attempt_count"`
	NextAttemptAt  *time.Time `json:"next_attempt_at"`
	CompletedAt    *time.Time `json:"completed_at"`
	ResponseStatus *int       `json:"response_status"`
	Error          *string
	CreatedAt      time.Time `json:"created_at"`
	Attempts       []wireAttempt
	Payload        json.RawMessage
}

type wireAttempt struct {
	Number         int
	Trigger        string
	At             time.Time
	DurationMS     int64   `json:"duration_ms"`
	ResponseStatus *int    `json:"response_status"`
	ResponseBody   *string `json:"response_body"`
	Error          *string
}

// textOf returns a text, or "" for null.
func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// hook registers a webhook; without events it gets signal.created.
func (c *client) hook(url string, events ...string) wireWebhook {
	c.tb.Helper()
	return decode[wireWebhook](c.tb, c.tryHook(url, events...).ok(c.tb).Body)
}

// tryHook is hook for a request that may be refused.
func (c *client) tryHook(url string, events ...string) answer {
	c.tb.Helper()
	if len(events) == 0 {
		events = []string{"signal.created"}
	}
	return c.post("/v1/webhooks", jsonOf(c.tb, map[string]any{"url": url, "events": events}))
}

// test triggers a test event.
func (c *client) test(w wireWebhook) wireDelivery {
	c.tb.Helper()
	return decode[wireDelivery](c.tb, c.post("/v1/webhooks/"+w.ID+"/test", "").ok(c.tb).Body)
}

// delivery returns a delivery with its attempts.
func (c *client) delivery(w wireWebhook, id string) wireDelivery {
	c.tb.Helper()
	return decode[wireDelivery](c.tb, c.get("/v1/webhooks/"+w.ID+"/deliveries/"+id).ok(c.tb).Body)
}

// awaitDelivery waits until ok returns true for a delivery.
func (c *client) awaitDelivery(w wireWebhook, id, what string, ok func(wireDelivery) bool) wireDelivery {
	c.tb.Helper()
	var d wireDelivery
	eventually(c.tb, "delivery "+id+" is "+what, func() bool {
		d = c.delivery(w, id)
		return ok(d)
	})
	return d
}

// awaitEnd waits until a delivery has the status.
func (c *client) awaitEnd(w wireWebhook, id, status string) wireDelivery {
	c.tb.Helper()
	return c.awaitDelivery(w, id, status, func(d wireDelivery) bool { return d.Status == status })
}

// deliveries returns all deliveries of a webhook, newest first, and compares the pages with
// each other; query may be empty. They must not change meanwhile.
func (c *client) deliveries(w wireWebhook, query string) []wireDelivery {
	c.tb.Helper()
	var all []wireDelivery
	for {
		p := decode[struct {
			Deliveries []wireDelivery
			Total      int
			HasMore    bool `json:"has_more"`
		}](c.tb, c.get(fmt.Sprintf("/v1/webhooks/%s/deliveries?limit=100&offset=%d&%s", w.ID, len(all), query)).
			ok(c.tb).Body)
		all = append(all, p.Deliveries...)
		if p.HasMore != (len(all) < p.Total) || len(p.Deliveries) == 0 && p.HasMore {
			c.tb.Fatalf("after %d deliveries has_more is %v with a total of %d", len(all), p.HasMore, p.Total)
		}
		if !p.HasMore {
			return all
		}
	}
}

// total returns the number of deliveries that a query finds.
func (c *client) total(w wireWebhook, query string) int {
	c.tb.Helper()
	return decode[struct{ Total int }](c.tb,
		c.get("/v1/webhooks/"+w.ID+"/deliveries?limit=1&"+query).ok(c.tb).Body).Total
}

// awaitTotal waits until a query finds n deliveries. Requests may fail meanwhile.
func (c *client) awaitTotal(w wireWebhook, query string, n int) {
	c.tb.Helper()
	eventually(c.tb, fmt.Sprintf("%d deliveries are found by %q", n, query),
		func() bool {
			a := c.get("/v1/webhooks/" + w.ID + "/deliveries?limit=1&" + query)
			return a.Status != http.StatusServiceUnavailable && decode[struct{ Total int }](c.tb, a.ok(c.tb).Body).Total == n
		})
}

// counts fails the test if the answer has another number.
func (a answer) counts(tb testing.TB, name string, want int) {
	tb.Helper()
	if n, ok := decode[map[string]int](tb, a.ok(tb).Body)[name]; !ok || n != want {
		tb.Errorf("the answer is %s, want %d %s", a.Body, want, name)
	}
}

// rawID returns an identifier as Redis has it in its records.
func rawID(tb testing.TB, id string) string {
	tb.Helper()
	raw, ok := signal.ULIDBytes(id)
	if !ok {
		tb.Fatalf("%q is not an identifier", id)
	}
	return string(raw[:])
}
