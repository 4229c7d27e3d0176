package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// PendingDeliveries returns the answer with the pending deliveries of a webhook.
func (c *Client) PendingDeliveries(webhook string) string {
	c.TB.Helper()
	return c.Get("/v1/webhooks/" + webhook + "/deliveries?status=pending").Ok(c.TB).Body
}

// Statistics returns those of the scorecard.
func (c *Client) Statistics() string {
	c.TB.Helper()
	return string(Decode[struct{ Statistics json.RawMessage }](c.TB, c.Get("/v1/scorecard").Ok(c.TB).Body).Statistics)
}

// RawConn opens a TCP connection that ends with the test.
func RawConn(tb testing.TB, address string) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	Must(tb, err)
	tb.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(WaitLimit))
	return conn
}

// UntilEnd reads until the other side closes.
func UntilEnd(conn net.Conn) string {
	text, _ := io.ReadAll(conn) // whatever ends it
	return string(text)
}

// Client sends requests to one service with one credential. Every exchange is compared with
// the API description.
type Client struct {
	TB    testing.TB
	URL   string // http://host:port
	Token string
	HTTP  *http.Client
	Base  *http.Transport // of http
}

// NewClient returns a client of the service at url; without a token it sends none.
func NewClient(tb testing.TB, url, token string) *Client {
	base := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	tb.Cleanup(base.CloseIdleConnections)
	return &Client{tb, url, token, &http.Client{Transport: httpCheck(tb).Transport(tb, base), Timeout: WaitLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, base}
}

// With returns a client with another credential.
func (c *Client) With(token string) *Client {
	other := *c
	other.Token = token
	return &other
}

// At returns a client of another service.
func (c *Client) At(url string) *Client {
	other := *c
	other.URL = url
	return &other
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string

	again func() Answer // repeats the request, if it changes nothing
}

// Try sends a request. Headers are "Name: value".
func (c *Client) Try(method, path, body string, headers ...string) (Answer, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, c.URL+path, reader)
	if err != nil {
		return Answer{}, err
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w, err := c.HTTP.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	return Answer{Status: w.StatusCode, Header: w.Header, Body: string(text)}, err
}

// ReadAnswer reads an answer as far as it comes.
func ReadAnswer(w *http.Response) Answer {
	defer w.Body.Close()
	text, _ := io.ReadAll(w.Body)
	return Answer{Status: w.StatusCode, Header: w.Header, Body: string(text)}
}

// Do is try for a service that must answer.
func (c *Client) Do(method, path, body string, headers ...string) Answer {
	c.TB.Helper()
	a, err := c.Try(method, path, body, headers...)
	if err != nil {
		c.TB.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Get is Do for GET.
func (c *Client) Get(path string, headers ...string) Answer {
	c.TB.Helper()
	a := c.Do(http.MethodGet, path, "", headers...)
	a.again = func() Answer { return c.Get(path, headers...) }
	return a
}

// Await polls a path until it is answered with the status. Requests may fail meanwhile.
func (c *Client) Await(path string, status int) {
	c.TB.Helper()
	Eventually(c.TB, fmt.Sprintf("%s is answered with %d", path, status),
		func() bool {
			a, err := c.Try(http.MethodGet, path, "")
			return err == nil && a.Status == status
		})
}

// Post is Do for POST.
func (c *Client) Post(path, body string, headers ...string) Answer {
	c.TB.Helper()
	return c.Do(http.MethodPost, path, body, headers...)
}

// Want fails the test if the answer has another status, and returns it.
func (a Answer) Want(tb testing.TB, status int) Answer {
	tb.Helper()
	if a.Status != status {
		tb.Fatalf("the answer is %d %.600s, want %d", a.Status, a.Body, status)
	}
	return a
}

// Ok is want for 200. It repeats a GET that is answered 503: on a busy machine Redis may take too long.
func (a Answer) Ok(tb testing.TB) Answer {
	tb.Helper()
	if a.again != nil && a.Unavailable() {
		Eventually(tb, "a read is possible", func() bool {
			a = a.again()
			return !a.Unavailable()
		})
	}
	return a.Want(tb, http.StatusOK)
}

// Problem holds the members of an error document that tests check.
type Problem struct {
	Code, Detail  string
	Instance      string
	RequiredScope string `json:"required_scope"`
	RunID         string `json:"run_id"`
	ErrorCode     string `json:"error_code"`
	Retryable     bool
	Errors        []struct{ Pointer, Parameter, Code, Detail string }
}

// statuses are those of the error codes.
var statuses = map[string]int{
	"invalid_request": 400, "missing_credentials": 401, "invalid_token": 401, "jwt_required": 401,
	"invalid_credentials": 401, "invalid_refresh_token": 401, "insufficient_scope": 403, "not_found": 404,
	"method_not_allowed": 405, "name_taken": 409, "slug_taken": 409, "record_gone": 410, "email_taken": 409,
	"limit_reached": 409, "built_in": 409,
	"not_runnable": 409, "no_signal": 409,
	"expired_alert": 409, "price_moved": 409, "reference_used": 409, "price_unavailable": 503, "webhook_disabled": 409,
	"not_closable":            409,
	"idempotency_in_progress": 409, "delivery_not_pending": 409, "delivery_not_failed": 409, "not_signed": 409,
	"body_too_large":         413,
	"unsupported_media_type": 415, "idempotency_key_reused": 422, "too_many_signals": 429, "rate_limited": 429,
	"account_locked": 429, "agent_failed": 500, "unavailable": 503, "agent_paused": 503,
}

// Fails fails the test if the answer is not the error with the code and its status, and
// returns its document.
func (a Answer) Fails(tb testing.TB, code string) Problem {
	tb.Helper()
	p := Decode[Problem](tb, a.Body)
	if a.Status != statuses[code] || p.Code != code {
		tb.Fatalf("the answer is %d %.600s, want %d %s", a.Status, a.Body, statuses[code], code)
	}
	return p
}

// TryLogin logs in to an account, if it can.
func (c *Client) TryLogin(email, password string) Answer {
	c.TB.Helper()
	return c.Post("/v1/auth/login", CredentialsBody(email, password))
}

// Decode reads JSON.
func Decode[T any](tb testing.TB, text string) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("read %.300q: %v", text, err)
	}
	return v
}

// WireSignal is a signal as clients see it, in a run's answer or an event.
type WireSignal struct {
	ID         string   `json:"signal_id"`
	Agent      string   `json:"agent_id"`
	Asset      string   `json:"asset"`
	Strategy   string   `json:"strategy"`
	Direction  string   `json:"direction"`
	Confidence float64  `json:"confidence"`
	Entry      *float64 `json:"entry_price"`
	Stop       *float64 `json:"stop_loss"`
	Target     *float64 `json:"take_profit"`
	CreatedAt  string   `json:"created_at"`
}

// WireJob is a job as clients see it.
type WireJob struct {
	ID     string `json:"job_id"`
	Run    string `json:"run_id"`
	Status string
	Signal *WireSignal
	Error  *struct {
		Code      string `json:"error_code"`
		Retryable bool
	}
}

// Page is a page of GET /v1/signals.
type Page struct {
	Signals []WireSignal
	Total   int
	HasMore bool `json:"has_more"`
}

// RunBody returns the body of a run.
func RunBody(asset, strategy string, members ...string) string {
	return fmt.Sprintf(`{"asset":%q,"strategy":%q%s}`, asset, strategy,
		strings.Join(append([]string{""}, members...), ","))
}

// TryRun runs the trading agent; members are further ones of the body.
func (c *Client) TryRun(asset, strategy string, members ...string) Answer {
	c.TB.Helper()
	return c.Post("/v1/agents/trading/run", RunBody(asset, strategy, members...))
}

// Run is tryRun for a run that must succeed.
func (c *Client) Run(asset, strategy string, members ...string) WireSignal {
	c.TB.Helper()
	return Decode[WireSignal](c.TB, c.TryRun(asset, strategy, members...).Ok(c.TB).Body)
}

// AwaitRun is run for a service that may not yet be able to, or whose prices may be too old
// on a busy machine.
func (c *Client) AwaitRun(asset, strategy string, members ...string) WireSignal {
	c.TB.Helper()
	var a Answer
	Eventually(c.TB, "a run of "+asset+" succeeds", func() bool {
		a = c.TryRun(asset, strategy, members...)
		return a.Status == http.StatusOK
	})
	return Decode[WireSignal](c.TB, a.Body)
}

// Submit is run as a job.
func (c *Client) Submit(asset, strategy string, members ...string) WireJob {
	c.TB.Helper()
	return Decode[WireJob](c.TB, c.TryRun(asset, strategy, append(members, `"async":true`)...).Ok(c.TB).Body)
}

// AwaitJob polls a job until it has ended. Requests may fail meanwhile.
func (c *Client) AwaitJob(id string) WireJob {
	c.TB.Helper()
	var j WireJob
	Eventually(c.TB, "job "+id+" ends", func() bool {
		a := c.Get("/v1/jobs/" + id)
		if a.Unavailable() {
			return false
		}
		j = Decode[WireJob](c.TB, a.Ok(c.TB).Body)
		return j.Status == "completed" || j.Status == "error"
	})
	return j
}

// Completed is awaitJob for a job that must lead to a signal.
func (c *Client) Completed(id string) WireJob {
	c.TB.Helper()
	j := c.AwaitJob(id)
	if j.Status != "completed" || j.Signal == nil {
		c.TB.Fatalf("job %s ended as %+v", id, j)
	}
	return j
}

// Signals returns a page of the list; query may be empty.
func (c *Client) Signals(query string) Page {
	c.TB.Helper()
	return Decode[Page](c.TB, c.Get("/v1/signals?"+query).Ok(c.TB).Body)
}

// Lists fails the test if a query finds another number of signals, or does not begin with
// those of first.
func (c *Client) Lists(query string, total int, first ...string) {
	c.TB.Helper()
	p := c.Signals(query)
	var got []string
	for _, s := range p.Signals[:min(len(first), len(p.Signals))] {
		got = append(got, s.ID)
	}
	if p.Total != total || !slices.Equal(got, first) {
		c.TB.Errorf("%q lists %d signals, first %v; want %d, first %v", query, p.Total, got, total, first)
	}
}

// AllSignals pages through the whole list, which must not change meanwhile, and checks its
// totals.
func (c *Client) AllSignals() []WireSignal {
	c.TB.Helper()
	var all []WireSignal
	for {
		p := c.Signals(fmt.Sprintf("limit=100&offset=%d", len(all)))
		all = append(all, p.Signals...)
		if p.HasMore != (len(all) < p.Total) || len(p.Signals) == 0 && p.HasMore {
			c.TB.Fatalf("after %d signals has_more is %v with a total of %d", len(all), p.HasMore, p.Total)
		}
		if !p.HasMore {
			break
		}
	}
	seen := map[string]bool{}
	for i, s := range all {
		if seen[s.ID] {
			c.TB.Errorf("%s is listed twice", s.ID)
		}
		seen[s.ID] = true
		if i > 0 && (s.CreatedAt > all[i-1].CreatedAt || s.CreatedAt == all[i-1].CreatedAt && s.ID > all[i-1].ID) {
			c.TB.Errorf("%s stands after %s, which is older", s.ID, all[i-1].ID)
		}
	}
	long, short := c.Signals("direction=long&limit=1").Total, c.Signals("direction=short&limit=1").Total
	if long+short != len(all) {
		c.TB.Errorf("%d long and %d short signals are %d in all", long, short, len(all))
	}
	return all
}

// Login returns the tokens of an account.
func (c *Client) Login(email, password string) Tokens {
	c.TB.Helper()
	return Decode[Tokens](c.TB, c.TryLogin(email, password).Ok(c.TB).Body)
}

// Tokens is the answer to a login or a refresh.
type Tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Expires int    `json:"expires_in"`
}

// CredentialsBody returns the body of a login.
func CredentialsBody(email, password string) string {
	b, _ := json.Marshal(map[string]string{"email": email, "password": password})
	return string(b)
}

// APIKey is the answer that shows a new key.
type APIKey struct {
	ID     string `json:"key_id"`
	Secret string `json:"api_key"`
	Scopes []string
}

// Key makes an API key with an access token; scopes is JSON, empty for all.
func (c *Client) Key(name, scopes string) APIKey {
	c.TB.Helper()
	body := fmt.Sprintf(`{"name":%q}`, name)
	if scopes != "" {
		body = fmt.Sprintf(`{"name":%q,"scopes":%s}`, name, scopes)
	}
	return Decode[APIKey](c.TB, c.Post("/v1/auth/api-key", body).Want(c.TB, http.StatusCreated).Body)
}

// UnknownKey returns a well-formed API key of no account.
func UnknownKey() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random := strings.ReplaceAll(rand.Text()+rand.Text(), "=", "")[:40]
	sum := crc32.ChecksumIEEE([]byte(random))
	check := make([]byte, 6)
	for i := len(check) - 1; i >= 0; i-- {
		check[i] = digits[sum%62]
		sum /= 62
	}
	return "ask_" + random + string(check)
}

// Health returns the statuses of /healthz and /readyz, and that in the body of the latter.
func (c *Client) Health() (alive, ready int, status string) {
	c.TB.Helper()
	readiness := c.Get("/readyz")
	return c.Get("/healthz").Status, readiness.Status, Decode[struct{ Status string }](c.TB, readiness.Body).Status
}

// Same reports whether two JSON texts are equal, in any order of members.
func Same(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// Members returns the part of a JSON object that has the given members.
func Members(tb testing.TB, text string, names ...string) string {
	tb.Helper()
	all := Decode[map[string]json.RawMessage](tb, text)
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	b, err := json.Marshal(all)
	Must(tb, err)
	return string(b)
}

// JsonOf returns the JSON of v.
func JsonOf(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	Must(tb, err)
	return string(b)
}

// SignalMembers are those of the Signal object of the specification.
var SignalMembers = []string{"signal_id", "agent_id", "asset", "strategy", "direction", "confidence", "entry_price",
	"stop_loss", "take_profit", "metadata", "created_at"}

// Unavailable reports whether the answer asks for a retry.
func (a Answer) Unavailable() bool {
	return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "5" &&
		strings.Contains(a.Body, `"code":"unavailable"`) && a.Header.Get("Content-Type") == "application/problem+json"
}

// Refresh exchanges a refresh token.
func (c *Client) Refresh(token string) Answer {
	c.TB.Helper()
	return c.Post("/v1/auth/refresh", `{"refresh_token":"`+token+`"}`)
}
