package sender

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
)

// Deliveries go to few endpoints over reused connections, and most of their cost is HTTP. So
// a request is written with one system call by the goroutine that reads the answer:
// net/http's transport has two more goroutines for each connection and takes half as much
// time again (deploy/decisions/0012-one-goroutine-a-request.md). net/http parses the
// answers.

// maxIdle bounds the unused connections.
const maxIdle = 2048

// endpointAddress is the address of a connection.
type endpointAddress struct {
	secure  bool
	address string // host:port, the host in ASCII
}

// connections keeps unused connections for reuse. It is safe for concurrent use.
type connections struct {
	dialer         *dialer
	idleTimeout    time.Duration
	maxIdlePerHost int
	log            *slog.Logger

	mu     sync.Mutex
	idle   map[endpointAddress][]*connection // the last used at the end
	count  int                               // of idle
	sweep  *time.Timer                       // nil without idle ones
	closed bool
}

// connection is a connection to an endpoint, used by one request at a time.
type connection struct {
	net.Conn
	to     endpointAddress
	answer *bufio.Reader // over the connection's Read
	left   int64         // bytes that may still be read
	broken error         // of the last read
	used   bool          // for an earlier request
	since  time.Time     // when it became unused
}

// errHeaderTooLong is the error of an answer whose header exceeds maxHeaderBytes.
var errHeaderTooLong = errors.New("the header of the answer is too long")

// Read implements io.Reader within the limit.
func (c *connection) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderTooLong
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	c.broken = err
	return n, err
}

// connect returns a connection to an endpoint: an unused one, unless fresh is set, or a new one.
func (p *connections) connect(
	ctx context.Context, to endpointAddress, fresh bool, deadline time.Time,
) (*connection, error) {
	if !fresh {
		for c := p.unused(to); c != nil; c = p.unused(to) {
			if isQuiet(c.Conn) {
				return c, nil
			}
			c.Close() // mostly closed by the endpoint already
		}
	}
	dial := p.dialer.dialPlain
	if to.secure {
		dial = p.dialer.dialTLS
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	raw, err := dial(ctx, "tcp", to.address)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: raw, to: to}
	c.answer = bufio.NewReader(c)
	return c, nil
}

// unused returns an unused connection, or nil.
func (p *connections) unused(to endpointAddress) *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[to]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	p.set(to, list[:len(list)-1])
	p.count--
	return c
}

// set replaces a list of unused connections. The caller holds p.mu.
func (p *connections) set(to endpointAddress, list []*connection) {
	if len(list) == 0 {
		delete(p.idle, to)
		return
	}
	p.idle[to] = list
}

// give keeps c for another request, or closes it if there are enough.
func (p *connections) give(c *connection) {
	if !p.keep(c) {
		c.Close()
	}
}

// keep keeps c for another request, unless there are enough, and reports whether it did. It
// closes nothing while p is locked, because closing may wait for the endpoint.
func (p *connections) keep(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.count >= maxIdle || len(p.idle[c.to]) >= p.maxIdlePerHost {
		return false
	}
	if p.idle == nil {
		p.idle = make(map[endpointAddress][]*connection)
	}
	c.used, c.since = true, time.Now()
	p.idle[c.to] = append(p.idle[c.to], c)
	p.count++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.idleTimeout, p.closeOld)
	}
	return true
}

// closeOld closes the connections that were unused for idleTimeout.
func (p *connections) closeOld() {
	old := p.dropOld()
	panics.GuardEach(p.log, panics.Webhooks, len(old), func(i int) { old[i].Close() },
		func(i int) []any { return []any{"endpoint", old[i].to.address} })
}

// dropOld removes and returns the connections that were unused for idleTimeout.
func (p *connections) dropOld() (old []*connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := time.Now().Add(-p.idleTimeout)
	for to, list := range p.idle {
		p.set(to, slices.DeleteFunc(list, func(c *connection) bool {
			if c.since.After(before) {
				return false
			}
			old = append(old, c)
			return true
		}))
	}
	p.count -= len(old)
	p.sweep = nil
	if p.count > 0 {
		p.sweep = time.AfterFunc(p.idleTimeout/2, p.closeOld)
	}
	return old
}

// close closes the unused connections, and others when they become unused.
func (p *connections) close() {
	p.mu.Lock()
	idle := p.idle
	p.closed, p.idle, p.count = true, nil, 0
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	for _, list := range idle {
		for _, c := range list {
			c.Close()
		}
	}
}

// postRequest is the request argument of http.ReadResponse.
var postRequest = &http.Request{Method: http.MethodPost}

// post sends the complete request b and returns the answer, whose body the caller must read
// before it calls done. If the endpoint closes a reused connection before it begins to
// answer, post repeats the request on a new one: an endpoint that has received both
// recognizes the delivery by its id.
func (p *connections) post(ctx context.Context, to endpointAddress, b []byte, deadline time.Time) (
	answer *http.Response, done func(whole bool), err error,
) {
	for fresh := false; ; fresh = true {
		c, err := p.connect(ctx, to, fresh, deadline)
		if err != nil {
			return nil, nil, err
		}
		c.SetDeadline(deadline)
		// The end of ctx interrupts reads and writes.
		stop := context.AfterFunc(ctx, func() {
			panics.Guard(p.log, panics.Webhooks, func() { c.SetDeadline(time.Unix(1, 0)) }, "endpoint", to.address)
		})
		answer, begun, err := c.exchange(b)
		if err == nil {
			return answer, func(whole bool) {
				if stop() && whole && !answer.Close && c.answer.Buffered() == 0 &&
					answer.StatusCode != http.StatusSwitchingProtocols {
					p.give(c)
				} else {
					c.Close()
				}
			}, nil
		}
		stop()
		c.Close()
		if !c.used || begun || isTimeout(err) || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// exchange writes a request and reads the header of its answer; begun reports whether the
// endpoint has begun to answer.
func (c *connection) exchange(b []byte) (answer *http.Response, begun bool, err error) {
	c.left = maxHeaderBytes
	_, written := c.Write(b)
	// An endpoint may answer without reading all, and close.
	if _, err := c.answer.Peek(1); err != nil {
		if written != nil {
			err = written
		}
		return nil, false, err
	}
	for {
		answer, err := http.ReadResponse(c.answer, postRequest)
		if err != nil {
			// A line cut off by the time limit would be reported as malformed.
			return nil, true, cmp.Or(c.broken, err)
		}
		if answer.StatusCode < 100 || answer.StatusCode > 199 || answer.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			return answer, true, nil
		}
	}
}

// ended reports whether all of r was read.
func ended(r io.Reader) bool {
	var b [1]byte
	n, err := r.Read(b[:])
	return n == 0 && errors.Is(err, io.EOF)
}
