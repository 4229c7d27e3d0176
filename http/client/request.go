package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// Limits of a request.
const (
	maxAnswer     = 4 << 20 // bytes
	minPause      = 250 * time.Millisecond
	readTimeout   = 10 * time.Second // of a GET
	changeTimeout = 60 * time.Second // of a change; a run may take half of it
)

// request is a request that may be sent several times.
type request struct {
	client       *Client
	method, path string // the path with its query
	body         []byte // JSON, or nil
	// keyed is set if the service knows an Idempotency-Key for the request.
	keyed bool
	again bool // a repetition changes nothing
}

// repeatable reports whether the request may be sent again although an earlier one may have taken
// effect.
func (r *request) repeatable() bool {
	return r.keyed || r.again || r.method == http.MethodGet || r.method == http.MethodDelete
}

// send sends a change with the JSON of in, which may be nil, and reads the answer into out.
func (r request) send(ctx context.Context, in any, out holder) error {
	if in != nil {
		var err error
		if r.body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("write request: %w", err)
		}
	}
	text, err := r.do(ctx)
	if err != nil || out == nil {
		return err
	}
	return read(text, out)
}

// do sends a request, if need be several times, and returns the body of the answer.
func (r *request) do(ctx context.Context) ([]byte, error) {
	key := ""
	if r.keyed {
		key = rand.Text()
	}
	lost := false // an answer that may have been a success
	return again(ctx, r, func() ([]byte, error) {
		body, err := r.once(ctx, key)
		p, answered := errors.AsType[*Problem](err)
		if answered && p.Status == http.StatusNotFound && r.method == http.MethodDelete && lost {
			return nil, nil // an earlier attempt has removed it
		}
		lost = lost || err != nil && !answered
		return body, err
	})
}

// again calls try until r has succeeded or another attempt is of no use.
func again[T any](ctx context.Context, r *request, try func() (T, error)) (T, error) {
	c := r.client
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
func (r *request) once(ctx context.Context, key string) ([]byte, error) {
	limit := changeTimeout
	if r.method == http.MethodGet {
		limit = readTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := r.open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	body, err := io.ReadAll(io.LimitReader(w.Body, maxAnswer+1))
	if err != nil {
		return nil, &ConnectError{Host: r.client.Address.Host, Err: fmt.Errorf("read answer: %w", err), Again: true}
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer to %s %s has more than %d bytes", r.method, r.path, maxAnswer)
	}
	return body, nil
}

// open sends a request once and returns the answer if it is a success.
func (r *request) open(ctx context.Context, key string) (*http.Response, error) {
	c := r.client
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
	err = r.answerError(w.StatusCode, body)
	if p, ok := errors.AsType[*Problem](err); ok {
		p.RetryAfter = backoff.RetryAfter(w.Header.Get("Retry-After"), time.Now())
	}
	return nil, err
}

// answerError explains an answer of the service that is not a success.
func (r *request) answerError(status int, body []byte) error {
	c := r.client
	p := readProblem(status, body)
	p.KeyFrom = c.KeyFrom
	p.Mistyped = p.Code == "invalid_token" && strings.HasPrefix(c.Key, credential.KeyPrefix) && !credential.IsKey(c.Key)
	switch {
	case status == http.StatusBadRequest && strings.Contains(string(body), "HTTP request to an HTTPS server"):
		return &ConnectError{Kind: NeedsTLS, Host: c.Address.Host}
	case p.Code == "" && (status < 400 || status == http.StatusNotFound):
		return &ConnectError{Kind: AnotherServer, Host: c.Address.Host, Err: p}
	}
	return p
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
