// Package fetch requests data from foreign servers over HTTP without harm to either side. Every request
// has a deadline and a size limit. Equal concurrent requests are sent once. A request is retried only
// where that may help, and not sent at all while the server asks for rest or keeps failing.
//
// An answer is checked before it is decoded: an HTML page with status 200, a truncated body and one
// that is too large are errors.
//
// Where to read: client.go (a request, its retries and decoding), breaker.go (when no
// request is sent), error.go (errors).
package fetch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/agentsignal/agentsignal/actors/backoff"
)

const (
	connectTimeout = 3 * time.Second
	requestTimeout = 10 * time.Second
	// maxBody bounds the body of an answer, errorBody that of an error.
	maxBody   = 8 << 20
	errorBody = 512
	maxTries  = 3
	// maxRedirects bounds the redirects of a request within a host.
	maxRedirects = 5
	// maxRetryAfter is the longest Retry-After after which a request is tried again.
	maxRetryAfter = 5 * time.Second
	// overall bounds a request with all its tries.
	overall = 45 * time.Second
	// defaultRest and defaultBan are the pauses after a limit or a ban without a Retry-After header.
	defaultRest = 30 * time.Second
	defaultBan  = 2 * time.Minute
)

// Options are what a Client is made with. The zero value of each field but Name works.
type Options struct {
	Name string // of the source, for errors and metrics; required
	// Rate is the number of requests a second in the long run, Burst the number at once. Default 5 and 10.
	Rate  float64
	Burst int
	// Header is sent with every request.
	Header http.Header
	// AnyHost follows redirects to other hosts. A client with a secret in its header or URLs must
	// not, because the other host would get it.
	AnyHost bool
	// Transport is for tests. The default bounds the time to connect.
	Transport http.RoundTripper
	// Rest returns how long the server asks for rest, by the start of the body of an error, or 0.
	// It may be nil.
	Rest func(body []byte) time.Duration
	// Done is called after every try with the result, "ok" or a Kind. It may be nil.
	Done func(source, result string)
}

// Client sends requests to one server.
type Client struct {
	o       Options
	http    *http.Client
	bucket  *rate.Limiter
	flights singleflight.Group
	breaker breaker
}

// New returns a client.
func New(o Options) *Client {
	o.Rate, o.Burst = cmp.Or(o.Rate, 5), cmp.Or(o.Burst, 10)
	if o.Transport == nil {
		o.Transport = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}).DialContext,
			// Connecting includes the handshake.
			TLSHandshakeTimeout: connectTimeout, ForceAttemptHTTP2: true,
			MaxIdleConns: 16, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		}
	}
	if o.Done == nil {
		o.Done = func(string, string) {}
	}
	if o.Rest == nil {
		o.Rest = func([]byte) time.Duration { return 0 }
	}
	client := &http.Client{Transport: o.Transport, Timeout: requestTimeout, CheckRedirect: sameHost}
	if o.AnyHost {
		client.CheckRedirect = anyHost
	}
	return &Client{o: o, http: client, bucket: rate.NewLimiter(rate.Limit(o.Rate), o.Burst),
		breaker: breaker{rests: backoff.Backoff{Min: minRest, Max: maxRest}}}
}

// sameHost refuses a redirect to another scheme or host, which would get the URL in Referer and all
// headers but Authorization and cookies.
func sameHost(to *http.Request, via []*http.Request) error {
	if asked := via[0].URL; to.URL.Scheme != asked.Scheme || to.URL.Host != asked.Host {
		return fmt.Errorf("%w to %s://%s, which is not followed", errRedirect, to.URL.Scheme, to.URL.Host)
	}
	return anyHost(to, via)
}

// anyHost follows redirects up to a limit, without Referer.
func anyHost(to *http.Request, via []*http.Request) error {
	to.Header.Del("Referer")
	if len(via) >= maxRedirects {
		return fmt.Errorf("%w more than %d times", errRedirect, maxRedirects)
	}
	return nil
}

// errRedirect is part of the cause of a refused redirect.
var errRedirect = errors.New("the source redirects")

// Request is a GET request.
type Request struct {
	URL string
	// Types are the accepted content types; default JSON.
	Types []string
	// ETag and LastModified, if set, make the request conditional on a change since their answer.
	ETag, LastModified string
	// Cost is the number of requests it counts as; default 1.
	Cost int
}

// Answer is a complete, checked answer.
type Answer struct {
	Body               []byte // read-only: equal requests share it
	Unchanged          bool   // 304: Body is empty
	ETag, LastModified string
}

// Get sends a request. The error is an *Error, or that of ctx.
func (c *Client) Get(ctx context.Context, r Request) (*Answer, error) {
	key := r.URL + "\n" + r.ETag + "\n" + r.LastModified
	// The request continues if the first caller gives up: others may wait for it.
	flight := c.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), overall)
		defer cancel()
		return c.tries(ctx, &r)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-flight:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*Answer), nil
	}
}

// tries sends a request until there is an answer or another try makes no sense.
func (c *Client) tries(ctx context.Context, r *Request) (*Answer, error) {
	retries := backoff.Backoff{Jitter: true}
	for try := 1; ; try++ {
		if wait := c.breaker.allow(time.Now()); wait > 0 {
			c.o.Done(c.o.Name, string(Resting))
			return nil, &Error{Source: c.o.Name, Kind: Resting, RetryAfter: wait}
		}
		cost := min(max(r.Cost, 1), c.o.Burst)
		if err := c.bucket.WaitN(ctx, cost); err != nil {
			c.breaker.drop()
			c.o.Done(c.o.Name, string(Resting))
			cause := errors.New("too many requests wait")
			return nil, &Error{Source: c.o.Name, Kind: Resting, RetryAfter: c.wait(cost), Cause: cause}
		}
		a, fault := c.once(ctx, r)
		if fault == nil {
			c.breaker.done(time.Now(), false)
			c.o.Done(c.o.Name, "ok")
			return a, nil
		}
		c.o.Done(c.o.Name, string(fault.Kind))
		c.breaker.done(time.Now(), fault.Kind != Refused)
		wait, again := c.retry(fault, retries.Next())
		if !again || try == maxTries || !backoff.Sleep(ctx, wait) {
			return nil, fault
		}
	}
}

// wait returns how long a request with a cost would wait for the rate, at least a second.
func (c *Client) wait(cost int) time.Duration {
	place := c.bucket.ReserveN(time.Now(), cost)
	defer place.Cancel()
	return max(place.Delay(), time.Second)
}

// retry reports whether another try makes sense, and returns the pause before it.
func (c *Client) retry(fault *Error, pause time.Duration) (time.Duration, bool) {
	switch fault.Kind {
	case Network, Server:
		if fault.RetryAfter > maxRetryAfter {
			c.breaker.pause(time.Now(), fault.RetryAfter)
			return 0, false
		}
		return max(pause, fault.RetryAfter), true
	case Limited, Banned:
		// Further requests would prolong the ban.
		if fault.RetryAfter <= 0 {
			fault.RetryAfter = defaultRest
			if fault.Kind == Banned {
				fault.RetryAfter = defaultBan
			}
		}
		c.breaker.pause(time.Now(), fault.RetryAfter)
		return fault.RetryAfter + pause/4, fault.RetryAfter <= maxRetryAfter
	}
	return 0, false
}

func (c *Client) once(ctx context.Context, r *Request) (*Answer, *Error) {
	fail := func(kind Kind, status int, cause error) *Error {
		return &Error{Source: c.o.Name, Kind: kind, Status: status, Cause: cause}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return nil, fail(Refused, 0, err)
	}
	for name, values := range c.o.Header {
		request.Header[name] = values
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "agentsignal")
	}
	if r.ETag != "" {
		request.Header.Set("If-None-Match", r.ETag)
	}
	if r.LastModified != "" {
		request.Header.Set("If-Modified-Since", r.LastModified)
	}
	w, err := c.http.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which may hold a key
		}
		if errors.Is(err, errRedirect) {
			return nil, fail(Refused, 0, err)
		}
		return nil, fail(Network, 0, err)
	}
	defer w.Body.Close()
	if w.StatusCode == http.StatusNotModified && r.ETag+r.LastModified != "" {
		return &Answer{Unchanged: true, ETag: r.ETag, LastModified: r.LastModified}, nil
	}
	if w.StatusCode != http.StatusOK {
		fault := fail(kindOf(w.StatusCode), w.StatusCode, nil)
		fault.RetryAfter = backoff.RetryAfter(w.Header.Get("Retry-After"), time.Now())
		fault.Body, _ = io.ReadAll(io.LimitReader(w.Body, errorBody))
		if rest := c.o.Rest(fault.Body); rest > 0 {
			fault.Kind, fault.RetryAfter = Limited, cmp.Or(fault.RetryAfter, rest)
		}
		return nil, fault
	}
	body, err := io.ReadAll(io.LimitReader(w.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, fail(Network, w.StatusCode, fmt.Errorf("read answer: %w", err))
	case len(body) > maxBody:
		return nil, fail(Large, w.StatusCode, fmt.Errorf("more than %d bytes", maxBody))
	}
	if err := checkType(w.Header.Get("Content-Type"), body, r.Types); err != nil {
		return nil, fail(Content, w.StatusCode, err)
	}
	return &Answer{Body: body, ETag: w.Header.Get("ETag"), LastModified: w.Header.Get("Last-Modified")}, nil
}

// Undecodable returns the error for an answer that cannot be decoded, which counts as a failure of
// the server.
func (c *Client) Undecodable(cause error) error {
	c.breaker.done(time.Now(), true)
	c.o.Done(c.o.Name, string(Content))
	return &Error{Source: c.o.Name, Kind: Content, Status: http.StatusOK, Cause: cause}
}

func kindOf(status int) Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return Limited
	case status == http.StatusTeapot:
		return Banned
	case status >= 500:
		return Server
	}
	return Refused
}

// checkType returns an error if an answer is not of one of the types, or is an HTML page regardless
// of its type.
func checkType(header string, body []byte, types []string) error {
	if len(types) == 0 {
		types = []string{"application/json"}
	}
	got, _, err := mime.ParseMediaType(header)
	if err != nil || !slices.Contains(types, got) {
		return fmt.Errorf("content type is %.60q", header)
	}
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 64)]))
	if bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html")) {
		return errors.New("a page of HTML")
	}
	return nil
}

// GetJSON sends a request and decodes the answer into v.
func (c *Client) GetJSON(ctx context.Context, r Request, v any) error {
	a, err := c.Get(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		return c.Undecodable(fmt.Errorf("decode answer: %w", err))
	}
	return nil
}

// GetNames sends a request for a list of objects and returns the value of a field of each, without
// empty ones. There is at least one.
func (c *Client) GetNames(ctx context.Context, r Request, field string) ([]string, error) {
	a, err := c.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	names, err := decodeNames(a.Body, field)
	if err != nil {
		return nil, c.Undecodable(err)
	}
	return names, nil
}

func decodeNames(body []byte, field string) ([]string, error) {
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("decode list: %w", err)
	}
	names := make([]string, 0, len(rows))
	for i, row := range rows {
		var name string
		if value, ok := row[field]; ok {
			if err := json.Unmarshal(value, &name); err != nil {
				return nil, fmt.Errorf("decode %s of entry %d: %w", field, i, err)
			}
		}
		if name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("decode list: it has no " + field)
	}
	return names, nil
}
