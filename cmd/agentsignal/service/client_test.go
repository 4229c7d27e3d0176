package service

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// client sends requests to one service with one credential. Every exchange is compared with
// the API description.
type client struct {
	tb    testing.TB
	url   string // http://host:port
	token string
	http  *http.Client
	base  *http.Transport // of http
}

// newClient returns a client of the service at url; without a token it sends none.
func newClient(tb testing.TB, url, token string) *client {
	base := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	tb.Cleanup(base.CloseIdleConnections)
	return &client{tb, url, token, &http.Client{Transport: httpCheck(tb).Transport(tb, base), Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, base}
}

// with returns a client with another credential.
func (c *client) with(token string) *client {
	other := *c
	other.token = token
	return &other
}

// at returns a client of another service.
func (c *client) at(url string) *client {
	other := *c
	other.url = url
	return &other
}

// answer is the answer to a request.
type answer struct {
	Status int
	Header http.Header
	Body   string

	again func() answer // repeats the request, if it changes nothing
}

// try sends a request. Headers are "Name: value".
func (c *client) try(method, path, body string, headers ...string) (answer, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, c.url+path, reader)
	if err != nil {
		return answer{}, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	return answer{Status: w.StatusCode, Header: w.Header, Body: string(text)}, err
}

// readAnswer reads an answer as far as it comes.
func readAnswer(w *http.Response) answer {
	defer w.Body.Close()
	text, _ := io.ReadAll(w.Body)
	return answer{Status: w.StatusCode, Header: w.Header, Body: string(text)}
}

// do is try for a service that must answer.
func (c *client) do(method, path, body string, headers ...string) answer {
	c.tb.Helper()
	a, err := c.try(method, path, body, headers...)
	if err != nil {
		c.tb.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (c *client) get(path string, headers ...string) answer {
	c.tb.Helper()
	a := c.do(http.MethodGet, path, "", headers...)
	a.again = func() answer { return c.get(path, headers...) }
	return a
}

// await polls a path until it is answered with the status. Requests may fail meanwhile.
func (c *client) await(path string, status int) {
	c.tb.Helper()
	eventually(c.tb, fmt.Sprintf("%s is answered with %d", path, status),
		func() bool {
			a, err := c.try(http.MethodGet, path, "")
			return err == nil && a.Status == status
		})
}

func (c *client) post(path, body string, headers ...string) answer {
	c.tb.Helper()
	return c.do(http.MethodPost, path, body, headers...)
}

// want fails the test if the answer has another status, and returns it.
func (a answer) want(tb testing.TB, status int) answer {
	tb.Helper()
	if a.Status != status {
		tb.Fatalf("the answer is %d %.600s, want %d", a.Status, a.Body, status)
	}
	return a
}

// ok is want for 200. It repeats a GET that is answered 503: on a busy machine Redis may take too long.
func (a answer) ok(tb testing.TB) answer {
	tb.Helper()
	if a.again != nil && a.unavailable() {
		eventually(tb, "a read is possible", func() bool {
			a = a.again()
			return !a.unavailable()
		})
	}
	return a.want(tb, http.StatusOK)
}

// problem holds the members of an error document that tests check.
type problem struct {
	Code, Detail  string
	RequiredScope string `json:"required_scope"`
	RunID         string `json:"run_id"`
	ErrorCode     string `json:"error_code"`
	Retryable     bool
	Errors        []struct{ Pointer, Parameter, Code string }
}

// statuses are those of the error codes.
var statuses = map[string]int{
	"invalid_request": 400, "missing_credentials": 401, "invalid_token": 401, "jwt_required": 401,
	"invalid_credentials": 401, "invalid_refresh_token": 401, "insufficient_scope": 403, "not_found": 404,
	"method_not_allowed": 405, "name_taken": 409, "email_taken": 409, "limit_reached": 409, "webhook_disabled": 409,
	"idempotency_in_progress": 409, "delivery_not_pending": 409, "delivery_not_failed": 409, "not_signed": 409,
	"body_too_large":         413,
	"unsupported_media_type": 415, "idempotency_key_reused": 422, "too_many_signals": 429, "rate_limited": 429,
	"account_locked": 429, "agent_failed": 500, "unavailable": 503,
}

// fails fails the test if the answer is not the error with the code and its status, and
// returns its document.
func (a answer) fails(tb testing.TB, code string) problem {
	tb.Helper()
	p := decode[problem](tb, a.Body)
	if a.Status != statuses[code] || p.Code != code {
		tb.Fatalf("the answer is %d %.600s, want %d %s", a.Status, a.Body, statuses[code], code)
	}
	return p
}

// tryLogin logs in to an account, if it can.
func (c *client) tryLogin(email, password string) answer {
	c.tb.Helper()
	return c.post("/v1/auth/login", credentialsBody(email, password))
}

// decode reads JSON.
func decode[T any](tb testing.TB, text string) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("read %.300q: %v", text, err)
	}
	return v
}

// wireSignal is a signal as clients see it, in a run's answer or an event.
type wireSignal struct {
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

// wireJob is a job as clients see it.
type wireJob struct {
	ID     string `json:"job_id"`
	Run    string `json:"run_id"`
	Status string
	Signal *wireSignal
	Error  *struct {
		Code      string `json:"error_code"`
		Retryable bool
	}
}

// page is a page of GET /v1/signals.
type page struct {
	Signals []wireSignal
	Total   int
	HasMore bool `json:"has_more"`
}

// runBody returns the body of a run.
func runBody(asset, strategy string, members ...string) string {
	return fmt.Sprintf(`{"asset":%q,"strategy":%q%s}`, asset, strategy,
		strings.Join(append([]string{""}, members...), ","))
}

// tryRun runs the trading agent; members are further ones of the body.
func (c *client) tryRun(asset, strategy string, members ...string) answer {
	c.tb.Helper()
	return c.post("/v1/agents/trading/run", runBody(asset, strategy, members...))
}

// run is tryRun for a run that must succeed.
func (c *client) run(asset, strategy string) wireSignal {
	c.tb.Helper()
	return decode[wireSignal](c.tb, c.tryRun(asset, strategy).ok(c.tb).Body)
}

// awaitRun is run for a service that may not yet be able to, or whose prices may be too old
// on a busy machine.
func (c *client) awaitRun(asset, strategy string, members ...string) wireSignal {
	c.tb.Helper()
	var a answer
	eventually(c.tb, "a run of "+asset+" succeeds", func() bool {
		a = c.tryRun(asset, strategy, members...)
		return a.Status == http.StatusOK
	})
	return decode[wireSignal](c.tb, a.Body)
}

// submit is run as a job.
func (c *client) submit(asset, strategy string) wireJob {
	c.tb.Helper()
	return decode[wireJob](c.tb, c.tryRun(asset, strategy, `"async":true`).ok(c.tb).Body)
}

// awaitJob polls a job until it has ended. Requests may fail meanwhile.
func (c *client) awaitJob(id string) wireJob {
	c.tb.Helper()
	var j wireJob
	eventually(c.tb, "job "+id+" ends", func() bool {
		a := c.get("/v1/jobs/" + id)
		if a.unavailable() {
			return false
		}
		j = decode[wireJob](c.tb, a.ok(c.tb).Body)
		return j.Status == "completed" || j.Status == "error"
	})
	return j
}

// completed is awaitJob for a job that must lead to a signal.
func (c *client) completed(id string) wireJob {
	c.tb.Helper()
	j := c.awaitJob(id)
	if j.Status != "completed" || j.Signal == nil {
		c.tb.Fatalf("job %s ended as %+v", id, j)
	}
	return j
}

// signals returns a page of the list; query may be empty.
func (c *client) signals(query string) page {
	c.tb.Helper()
	return decode[page](c.tb, c.get("/v1/signals?"+query).ok(c.tb).Body)
}

// lists fails the test if a query finds another number of signals, or does not begin with
// those of first.
func (c *client) lists(query string, total int, first ...string) {
	c.tb.Helper()
	p := c.signals(query)
	var got []string
	for _, s := range p.Signals[:min(len(first), len(p.Signals))] {
		got = append(got, s.ID)
	}
	if p.Total != total || !slices.Equal(got, first) {
		c.tb.Errorf("%q lists %d signals, first %v; want %d, first %v", query, p.Total, got, total, first)
	}
}

// allSignals pages through the whole list, which must not change meanwhile, and checks its
// totals.
func (c *client) allSignals() []wireSignal {
	c.tb.Helper()
	var all []wireSignal
	for {
		p := c.signals(fmt.Sprintf("limit=100&offset=%d", len(all)))
		all = append(all, p.Signals...)
		if p.HasMore != (len(all) < p.Total) || len(p.Signals) == 0 && p.HasMore {
			c.tb.Fatalf("after %d signals has_more is %v with a total of %d", len(all), p.HasMore, p.Total)
		}
		if !p.HasMore {
			break
		}
	}
	seen := map[string]bool{}
	for i, s := range all {
		if seen[s.ID] {
			c.tb.Errorf("%s is listed twice", s.ID)
		}
		seen[s.ID] = true
		if i > 0 && (s.CreatedAt > all[i-1].CreatedAt || s.CreatedAt == all[i-1].CreatedAt && s.ID > all[i-1].ID) {
			c.tb.Errorf("%s stands after %s, which is older", s.ID, all[i-1].ID)
		}
	}
	long, short := c.signals("direction=long&limit=1").Total, c.signals("direction=short&limit=1").Total
	if long+short != len(all) {
		c.tb.Errorf("%d long and %d short signals are %d in all", long, short, len(all))
	}
	return all
}

// login returns the tokens of an account.
func (c *client) login(email, password string) tokens {
	c.tb.Helper()
	return decode[tokens](c.tb, c.tryLogin(email, password).ok(c.tb).Body)
}

type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Expires int    `json:"expires_in"`
}

func credentialsBody(email, password string) string {
	b, _ := json.Marshal(map[string]string{"email": email, "password": password})
	return string(b)
}

type apiKey struct {
	ID     string `json:"key_id"`
	Secret string `json:"api_key"`
	Scopes []string
}

// key makes an API key with an access token; scopes is JSON, empty for all.
func (c *client) key(name, scopes string) apiKey {
	c.tb.Helper()
	body := fmt.Sprintf(`{"name":%q}`, name)
	if scopes != "" {
		body = fmt.Sprintf(`{"name":%q,"scopes":%s}`, name, scopes)
	}
	return decode[apiKey](c.tb, c.post("/v1/auth/api-key", body).want(c.tb, http.StatusCreated).Body)
}

// unknownKey returns a well-formed API key of no account.
func unknownKey() string {
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

// health returns the statuses of /healthz and /readyz, and that in the body of the latter.
func (c *client) health() (alive, ready int, status string) {
	c.tb.Helper()
	readiness := c.get("/readyz")
	return c.get("/healthz").Status, readiness.Status, decode[struct{ Status string }](c.tb, readiness.Body).Status
}

// same reports whether two JSON texts are equal, in any order of members.
func same(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// members returns the part of a JSON object that has the given members.
func members(tb testing.TB, text string, names ...string) string {
	tb.Helper()
	all := decode[map[string]json.RawMessage](tb, text)
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	b, err := json.Marshal(all)
	must(tb, err)
	return string(b)
}

// jsonOf returns the JSON of v.
func jsonOf(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	must(tb, err)
	return string(b)
}

// signalMembers are those of the Signal object of the specification.
var signalMembers = []string{"signal_id", "agent_id", "asset", "strategy", "direction", "confidence", "entry_price",
	"stop_loss", "take_profit", "metadata", "created_at"}

// unavailable reports whether the answer asks for a retry.
func (a answer) unavailable() bool {
	return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "5" &&
		strings.Contains(a.Body, `"code":"unavailable"`) && a.Header.Get("Content-Type") == "application/problem+json"
}
