package e2e

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
	"github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// HoldsTo fails the test if an attempt of a delivery was made before its time in the
// schedule, by the recorded times.
func (d WireDelivery) HoldsTo(tb testing.TB, delays []time.Duration) {
	tb.Helper()
	for i, a := range d.Attempts {
		if a.Number != i+1 {
			tb.Errorf("attempt %d has the number %d", i+1, a.Number)
		}
		if i == 0 || a.Trigger == "manual" {
			continue
		}
		before := d.Attempts[i-1]
		// Recorded times are whole milliseconds: each may be up to one too small.
		due := before.At.Add(time.Duration(before.DurationMS)*time.Millisecond + delays[i-1] - 2*time.Millisecond)
		if a.At.Before(due) {
			tb.Errorf("attempt %d is made at %s, which is before %s", a.Number, a.At, due)
		}
	}
}

// NothingLeft waits until Redis holds no traces of a webhook and of deliveries. Only the
// event log may name the webhook.
func (h hookService) NothingLeft(tb testing.TB, w WireWebhook, sent []HookRequest) {
	tb.Helper()
	texts := []string{w.ID, w.URL, RawID(tb, w.ID)}
	for _, a := range sent {
		texts = append(texts, a.Delivery(), RawID(tb, a.Delivery()))
	}
	var left []string
	defer func() {
		if tb.Failed() {
			tb.Logf("left of the webhook: %v", left)
		}
	}()
	Eventually(tb, "everything of the webhook is erased", func() bool {
		left = h.Traces(tb, texts, "}:events")
		if len(left) > 0 {
			time.Sleep(50 * time.Millisecond) // a scan of all keys costs more than other conditions
		}
		return len(left) == 0
	})
}

// TestRetries are the delays before retries where a test waits for them.
var TestRetries = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond,
	200 * time.Millisecond, 250 * time.Millisecond, 300 * time.Millisecond}

// Loopback is the network of the endpoints of tests.
const Loopback = "127.0.0.0/8"

// HookConfig is testConfig for a service that delivers to this machine and retries soon.
func HookConfig(tb testing.TB, url string) configs.Config {
	c := TestConfig(tb, url)
	c.Webhooks.AllowedNetworks = []string{Loopback}
	c.Webhooks.RetrySchedule = nil
	for _, d := range TestRetries {
		c.Webhooks.RetrySchedule = append(c.Webhooks.RetrySchedule, configs.Duration(d))
	}
	return c
}

// hookService is a service and its Redis.
type hookService struct {
	*Service
	redis *redis.Client
}

// SharedHooks returns a service that tests of webhooks use at once, each with an
// account of its own. It is made for hookConfig.
var SharedHooks = once(func(tb testing.TB) hookService {
	long := lastingTB{tb}
	redis := redistest.New(long)
	return StartHooks(long, redis, HookConfig(long, redis.URL()))
})

// StartHooks starts a service with prices of BTC. It need not end well: deliveries may be
// in flight.
func StartHooks(tb testing.TB, redis *redistest.Server, c configs.Config) hookService {
	tb.Helper()
	s := hookService{Begin(tb, c), redis.Client()}
	s.AwaitReady(tb)
	NewMarket(tb, s.redis).Hours("BTC", 400)
	s.AwaitPrices(tb, "BTC", signal.H1)
	return s
}

// HookRequest is a request that an endpoint got.
type HookRequest struct {
	Path   string
	Header http.Header
	Body   string
	When   time.Time
	Ctx    context.Context // ends when the sender gives up
}

// Delivery returns the identifier of the delivery.
func (a HookRequest) Delivery() string { return a.Header.Get("X-Service-Delivery") }

// Event returns the identifier of the event.
func (a HookRequest) Event() string { return a.Header.Get("Webhook-Id") }

// Kind returns the type of the event.
func (a HookRequest) Kind() string { return a.Header.Get("X-Service-Event") }

// Attempt returns the number of the attempt, from 1.
func (a HookRequest) Attempt() int { n, _ := strconv.Atoi(a.Header.Get("X-Service-Attempt")); return n }

// Envelope is the form of every body.
type Envelope struct {
	ID         string
	Type       string
	APIVersion string `json:"api_version"`
	CreatedAt  string `json:"created_at"`
	Data       json.RawMessage
}

// Verify fails the test if the request is not signed with the secret, by the rules of
// the specification and of Standard Webhooks, or is malformed. It returns its envelope.
func (a HookRequest) Verify(tb testing.TB, secret string) Envelope {
	tb.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(a.Body))
	if got, want := a.Header.Get("X-Service-Signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want {
		tb.Errorf("X-Service-Signature is %q, want %q", got, want)
	}
	a.VerifyStandard(tb, secret)
	for name, want := range map[string]string{"Content-Type": "application/json",
		"User-Agent": "agentsignal/" + service.Version, "Webhook-Timestamp": a.Header.Get("X-Service-Timestamp")} {
		if got := a.Header.Get(name); got != want {
			tb.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	e := Decode[Envelope](tb, a.Body)
	if _, ok := signal.ParseDeliveryID(a.Delivery()); !ok || e.ID != a.Event() || !strings.HasPrefix(e.ID, "evt_") ||
		e.Type != a.Kind() || a.Attempt() < 1 {
		tb.Errorf("the headers %v do not fit the body %s", a.Header, a.Body)
	}
	if _, err := time.Parse(signal.TimeLayout, e.CreatedAt); err != nil {
		tb.Errorf("created_at: %v", err)
	}
	if _, err := time.Parse(time.DateOnly, e.APIVersion); err != nil {
		tb.Errorf("api_version: %v", err)
	}
	if names := MemberNames(tb, a.Body); names != "api_version created_at data id type" {
		tb.Errorf("the envelope has the members %s", names)
	}
	return e
}

// VerifyStandard fails the test if the library of Standard Webhooks does not accept
// the request.
func (a HookRequest) VerifyStandard(tb testing.TB, secret string) {
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

// MemberNames returns the names of a JSON object's members in their order.
func MemberNames(tb testing.TB, text string) string {
	tb.Helper()
	var names []string
	for name := range Decode[map[string]json.RawMessage](tb, text) {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// HookEndpoint is an endpoint that records its requests.
type HookEndpoint struct {
	tb      testing.TB
	URL     string
	answer  func(w http.ResponseWriter, a HookRequest)
	Release func() // lets those that hang be answered

	mu       sync.Mutex
	arrivals []HookRequest
}

// NewHookEndpoint starts one that answers by the function; nil: 200.
func NewHookEndpoint(tb testing.TB, answer func(w http.ResponseWriter, a HookRequest)) *HookEndpoint {
	tb.Helper()
	r := &HookEndpoint{tb: tb, answer: answer}
	server := httptest.NewServer(r)
	r.URL = server.URL + "/hook/" + rand.Text() // a port may be that of an earlier server
	tb.Cleanup(server.Close)
	return r
}

// NewHangingEndpoint starts one that answers nothing until it is released, with the
// test's end at the latest. From then on it answers 200.
func NewHangingEndpoint(tb testing.TB) *HookEndpoint {
	tb.Helper()
	free := make(chan struct{})
	r := NewHookEndpoint(tb, func(_ http.ResponseWriter, a HookRequest) {
		select {
		case <-free:
		case <-a.Ctx.Done():
		}
	})
	r.Release = sync.OnceFunc(func() { close(free) })
	tb.Cleanup(r.Release)
	return r
}

// NewFailingEndpoint starts one that answers with a status and a body until it is released.
// From then on it answers 200.
func NewFailingEndpoint(tb testing.TB, status int, body string) *HookEndpoint {
	tb.Helper()
	var released atomic.Bool
	r := NewHookEndpoint(tb, func(w http.ResponseWriter, _ HookRequest) {
		if !released.Load() {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	})
	r.Release = func() { released.Store(true) }
	return r
}

// ServeHTTP implements http.Handler.
func (r *HookEndpoint) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil || q.Method != http.MethodPost {
		r.tb.Errorf("an endpoint got %s, %v", q.Method, err)
		return
	}
	a := HookRequest{Path: q.URL.Path, Header: q.Header, Body: string(body), When: time.Now(), Ctx: q.Context()}
	r.mu.Lock()
	r.arrivals = append(r.arrivals, a)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, a)
	}
}

// Got returns the requests so far.
func (r *HookEndpoint) Got() []HookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrivals)
}

// Open returns the requests that are neither answered nor given up by the service.
func (r *HookEndpoint) Open() []HookRequest {
	return slices.DeleteFunc(r.Got(), func(a HookRequest) bool { return a.Ctx.Err() != nil })
}

// Await waits for n requests, and returns all so far.
func (r *HookEndpoint) Await(tb testing.TB, n int) []HookRequest {
	tb.Helper()
	var all []HookRequest
	Eventually(tb, fmt.Sprintf("%d requests arrive", n), func() bool {
		all = r.Got()
		return len(all) >= n
	})
	return all
}

// SignalsIn returns the signals of the requests for signal.created, with how often
// each has come.
func SignalsIn(tb testing.TB, all []HookRequest) map[string]int {
	tb.Helper()
	found := map[string]int{}
	for _, a := range all {
		if a.Kind() == "signal.created" {
			found[Decode[struct{ Data WireSignal }](tb, a.Body).Data.ID]++
		}
	}
	return found
}

// WireWebhook is a webhook as clients see it.
type WireWebhook struct {
	ID             string `json:"webhook_id"`
	URL            string
	Events         []string
	Status         string
	DisabledReason *string `json:"disabled_reason"`
	FailingSince   *string `json:"failing_since"`
	Secret         string
}

// WireDelivery is a delivery as clients see it.
type WireDelivery struct {
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

// Hook registers a webhook; without events it gets signal.created.
func (c *Client) Hook(url string, events ...string) WireWebhook {
	c.TB.Helper()
	return Decode[WireWebhook](c.TB, c.TryHook(url, events...).Ok(c.TB).Body)
}

// TryHook is hook for a request that may be refused.
func (c *Client) TryHook(url string, events ...string) Answer {
	c.TB.Helper()
	if len(events) == 0 {
		events = []string{"signal.created"}
	}
	return c.Post("/v1/webhooks", JsonOf(c.TB, map[string]any{"url": url, "events": events}))
}

// Test triggers a test event.
func (c *Client) Test(w WireWebhook) WireDelivery {
	c.TB.Helper()
	return Decode[WireDelivery](c.TB, c.Post("/v1/webhooks/"+w.ID+"/test", "").Ok(c.TB).Body)
}

// Delivery returns a delivery with its attempts.
func (c *Client) Delivery(w WireWebhook, id string) WireDelivery {
	c.TB.Helper()
	return Decode[WireDelivery](c.TB, c.Get("/v1/webhooks/"+w.ID+"/deliveries/"+id).Ok(c.TB).Body)
}

// AwaitDelivery waits until ok returns true for a delivery.
func (c *Client) AwaitDelivery(w WireWebhook, id, what string, ok func(WireDelivery) bool) WireDelivery {
	c.TB.Helper()
	var d WireDelivery
	Eventually(c.TB, "delivery "+id+" is "+what, func() bool {
		d = c.Delivery(w, id)
		return ok(d)
	})
	return d
}

// AwaitEnd waits until a delivery has the status.
func (c *Client) AwaitEnd(w WireWebhook, id, status string) WireDelivery {
	c.TB.Helper()
	return c.AwaitDelivery(w, id, status, func(d WireDelivery) bool { return d.Status == status })
}

// Deliveries returns all deliveries of a webhook, newest first, and compares the pages with
// each other; query may be empty. They must not change meanwhile.
func (c *Client) Deliveries(w WireWebhook, query string) []WireDelivery {
	c.TB.Helper()
	var all []WireDelivery
	for {
		p := Decode[struct {
			Deliveries []WireDelivery
			Total      int
			HasMore    bool `json:"has_more"`
		}](c.TB, c.Get(fmt.Sprintf("/v1/webhooks/%s/deliveries?limit=100&offset=%d&%s", w.ID, len(all), query)).
			Ok(c.TB).Body)
		all = append(all, p.Deliveries...)
		if p.HasMore != (len(all) < p.Total) || len(p.Deliveries) == 0 && p.HasMore {
			c.TB.Fatalf("after %d deliveries has_more is %v with a total of %d", len(all), p.HasMore, p.Total)
		}
		if !p.HasMore {
			return all
		}
	}
}

// Total returns the number of deliveries that a query finds.
func (c *Client) Total(w WireWebhook, query string) int {
	c.TB.Helper()
	return Decode[struct{ Total int }](c.TB,
		c.Get("/v1/webhooks/"+w.ID+"/deliveries?limit=1&"+query).Ok(c.TB).Body).Total
}

// AwaitTotal waits until a query finds n deliveries. Requests may fail meanwhile.
func (c *Client) AwaitTotal(w WireWebhook, query string, n int) {
	c.TB.Helper()
	Eventually(c.TB, fmt.Sprintf("%d deliveries are found by %q", n, query),
		func() bool {
			a := c.Get("/v1/webhooks/" + w.ID + "/deliveries?limit=1&" + query)
			return a.Status != http.StatusServiceUnavailable && Decode[struct{ Total int }](c.TB, a.Ok(c.TB).Body).Total == n
		})
}

// Counts fails the test if the answer has another number.
func (a Answer) Counts(tb testing.TB, name string, want int) {
	tb.Helper()
	if n, ok := Decode[map[string]int](tb, a.Ok(tb).Body)[name]; !ok || n != want {
		tb.Errorf("the answer is %s, want %d %s", a.Body, want, name)
	}
}

// RawID returns an identifier as Redis has it in its records.
func RawID(tb testing.TB, id string) string {
	tb.Helper()
	raw, ok := signal.ULIDBytes(id)
	if !ok {
		tb.Fatalf("%q is not an identifier", id)
	}
	return string(raw[:])
}

// SameCounts compares two counts.
func SameCounts(a, b map[string]int) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
