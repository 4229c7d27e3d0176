package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/retryafter"
)

// The defaults of a Client, for one that a person waits for.
const (
	DefaultAttempts = 5
	DefaultMaxPause = 15 * time.Second
)

// Limits of a request.
const (
	maxAnswer     = 4 << 20 // bytes
	minPause      = 250 * time.Millisecond
	readTimeout   = 10 * time.Second // of a GET
	changeTimeout = 60 * time.Second // of a change; a run may take half of it
)

// Client sends requests to one service with one credential. Its fields are set before the first
// request; it may then be used from many goroutines.
type Client struct {
	Address *url.URL // of the service, see ParseAddress
	Key     string   // an API key or an access token; without one, requests carry none
	KeyFrom string   // where the key is from, for messages; may be empty

	Attempts int           // of one request at most; default DefaultAttempts
	MaxPause time.Duration // between two attempts; if the service asks for more, it is the last. Default DefaultMaxPause
	// HTTP sends the requests; by default one that does not follow redirects: a body may hold a secret.
	HTTP *http.Client
	// Sleep waits before a retry and reports false if ctx ends first; default backoff.Sleep.
	Sleep func(ctx context.Context, d time.Duration) bool

	dialer   *websocket.Dialer // of streams; nil: the default
	answered atomic.Bool       // the service has answered
}

// New returns a client of the service at address with a credential, which may be empty.
func New(address *url.URL, key string) *Client { return &Client{Address: address, Key: key} }

// defaultHTTP does not follow redirects.
var defaultHTTP = &http.Client{CheckRedirect: noRedirects}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Trust makes the client accept certificates of the authorities, and of no others. It is called before the first
// request, and replaces HTTP.
func (c *Client) Trust(authorities *x509.CertPool) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities}
	c.HTTP = &http.Client{Transport: transport, CheckRedirect: noRedirects}
	dialer := *websocket.DefaultDialer
	dialer.TLSClientConfig = &tls.Config{RootCAs: authorities}
	c.dialer = &dialer
}

// With returns a client of the same service with another credential.
func (c *Client) With(key string) *Client {
	return &Client{Address: c.Address, Key: key, Attempts: c.Attempts, MaxPause: c.MaxPause, HTTP: c.HTTP, Sleep: c.Sleep,
		dialer: c.dialer}
}

// request is a request that may be sent several times.
type request struct {
	method, path string // the path with its query
	body         []byte // JSON, or nil
	// keyed is set if the service knows an Idempotency-Key for the request.
	keyed bool
}

// repeatable reports whether the request may be sent again although an earlier one may have taken
// effect.
func (r *request) repeatable() bool {
	return r.keyed || r.method == http.MethodGet || r.method == http.MethodDelete
}

// Get returns the body of the answer to GET path, which may have a query.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, &request{method: http.MethodGet, path: path})
}

// send sends a change with the JSON of in, which may be nil, and reads the answer into out.
func (c *Client) send(ctx context.Context, r request, in any, out holder) error {
	if in != nil {
		var err error
		if r.body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("write request: %w", err)
		}
	}
	text, err := c.do(ctx, &r)
	if err != nil || out == nil {
		return err
	}
	return read(text, out)
}

// do sends a request, if need be several times, and returns the body of the answer.
func (c *Client) do(ctx context.Context, r *request) ([]byte, error) {
	key := ""
	if r.keyed {
		key = rand.Text()
	}
	lost := false // an answer that may have been a success
	return again(ctx, c, r, func() ([]byte, error) {
		body, err := c.once(ctx, r, key)
		p, answered := errors.AsType[*Problem](err)
		if answered && p.Status == http.StatusNotFound && r.method == http.MethodDelete && lost {
			return nil, nil // an earlier attempt has removed it
		}
		lost = lost || err != nil && !answered
		return body, err
	})
}

// again calls try until r has succeeded or another attempt is of no use.
func again[T any](ctx context.Context, c *Client, r *request, try func() (T, error)) (T, error) {
	sleep := c.Sleep
	if sleep == nil {
		sleep = backoff.Sleep
	}
	longest, attempts := cmp.Or(c.MaxPause, DefaultMaxPause), cmp.Or(c.Attempts, DefaultAttempts)
	pauses := backoff.Backoff{Min: min(minPause, longest), Max: longest, Jitter: true}
	for attempt := 1; ; attempt++ {
		v, err := try()
		p, answered := errors.AsType[*Problem](err)
		switch {
		case err == nil, ctx.Err() != nil, !Temporary(err),
			!r.repeatable() && (!answered || p.Status != http.StatusTooManyRequests):
			return v, err
		case attempt == attempts:
			return v, fmt.Errorf("%s %s: given up after %d attempts: %w", r.method, r.path, attempt, err)
		}
		pause := min(pauses.Next(), longest)
		if answered {
			if p.RetryAfter > longest {
				return v, err
			}
			pause = max(pause, p.RetryAfter)
		}
		if !sleep(ctx, pause) {
			return v, ctx.Err()
		}
	}
}

// once sends a request once.
func (c *Client) once(ctx context.Context, r *request, key string) ([]byte, error) {
	limit := changeTimeout
	if r.method == http.MethodGet {
		limit = readTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := c.open(ctx, r, key)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	body, err := io.ReadAll(io.LimitReader(w.Body, maxAnswer+1))
	if err != nil {
		return nil, &ConnectError{Host: c.Address.Host, Err: fmt.Errorf("read answer: %w", err), Again: true}
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer to %s %s has more than %d bytes", r.method, r.path, maxAnswer)
	}
	return body, nil
}

// open sends a request once and returns the answer if it is a success.
func (c *Client) open(ctx context.Context, r *request, key string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, r.method, c.Address.String()+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	if c.Key != "" {
		q.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if r.body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	w, err := cmp.Or(c.HTTP, defaultHTTP).Do(q)
	if err != nil {
		return nil, connectError(c.Address, err, c.answered.Load())
	}
	c.answered.Store(true)
	if w.StatusCode/100 == 2 {
		return w, nil
	}
	defer w.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(w.Body, maxAnswer)) // the status says enough
	err = c.answerError(w.StatusCode, body)
	if p, ok := errors.AsType[*Problem](err); ok {
		p.RetryAfter = retryafter.Parse(w.Header.Get("Retry-After"), time.Now())
	}
	return nil, err
}

// Object is the JSON from which a result was read, with the members that this package does not know.
type Object struct {
	JSON json.RawMessage `json:"-"`
}

func (o *Object) hold(text []byte) { o.JSON = text }

// Raw returns the JSON.
func (o *Object) Raw() json.RawMessage { return o.JSON }

// holder is a result with an Object.
type holder interface{ hold(text []byte) }

// read reads an answer into v.
func read(text []byte, v holder) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	v.hold(text)
	return nil
}

// get reads the answer to GET path into a new T.
func get[T any, P interface {
	*T
	holder
}](ctx context.Context, c *Client, path string) (*T, error) {
	text, err := c.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	v := new(T)
	return v, read(text, P(v))
}
