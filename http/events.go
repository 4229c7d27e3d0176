package http

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// eventID is the header in which EventSource names the newest event that it has.
const eventID = "Last-Event-ID"

var (
	headerEvents     = []string{"text/event-stream"}
	headerUnbuffered = []string{"no"}
	headerClose      = []string{"close"}
)

// errNoCredential is answered to a client of Server-Sent Events without a credential.
var errNoCredential = &signal.Error{Kind: signal.KindUnauthorized, Code: "missing_credentials",
	Message: "A credential is needed: an API key or an access token, in the header Authorization or in the " +
		"parameter api_key."}

// authenticateEvents is authenticate for Server-Sent Events, whose clients cannot authenticate later.
func (h *StreamHandlers) authenticateEvents(c *call) error {
	if err := h.authenticate(c); err != nil {
		return err
	}
	if c.principal.Account == "" {
		return errNoCredential
	}
	accepted(c.r.Context())
	return nil
}

// events answers GET /v1/sse/dashboard: it begins an answer without an end and hands it to the hub, once the request
// has been counted and logged. By HTTP/1.1 the hub takes the connection over, as that of a WebSocket.
func (h *StreamHandlers) events(c *call) error {
	first := h.firstSubscription(c, c.r.Header.Get(eventID))
	if err := c.faults.Err(); err != nil {
		return err
	}
	hub, p := h.hub, new(c.principal) // a copy does not keep the request alive
	if _, err := h.enter(c, p); err != nil {
		return err
	}
	header := c.Header()
	header["Content-Type"] = headerEvents
	header["X-Accel-Buffering"] = headerUnbuffered // by nginx
	if c.r.ProtoMajor > 1 {
		a, stopping := newOpenAnswer(c), c.server.stopping
		c.WriteHeader(http.StatusOK)
		c.then = func() {
			leave := hub.ServeEvents(a, nil, p, first)
			select {
			case <-a.closed:
			case <-stopping:
				leave()
				<-a.closed
			}
		}
		return nil
	}
	header["Connection"] = headerClose
	header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head) // a buffer has no error
	head.WriteString("\r\n")
	conn, _, err := c.Hijack()
	if err != nil {
		if p.View != nil {
			hub.LeaveReader(p)
		}
		return err
	}
	c.status = http.StatusOK
	c.then = func() { hub.ServeEvents(conn, head.Bytes(), p, first) }
	return nil
}

// openAnswer is an answer by HTTP/2, where many share a connection. It implements dashboard.Conn: one goroutine
// writes, and the request's own waits until it is closed.
type openAnswer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	left    <-chan struct{} // closed when the client has left
	closed  chan struct{}   // closed by the end

	deadline time.Time // of writes

	mu   sync.RWMutex // held for writing by the end: then nothing may be written any more
	over bool
}

var _ dashboard.Conn = (*openAnswer)(nil)

// newOpenAnswer returns the answer to a call.
func newOpenAnswer(c *call) *openAnswer {
	a := &openAnswer{w: c.ResponseWriter, control: http.NewResponseController(c.ResponseWriter),
		left: c.r.Context().Done(), closed: make(chan struct{})}
	_ = a.control.SetWriteDeadline(time.Time{}) // HTTP/2 has them
	return a
}

// Read waits for the end: a client sends nothing.
func (a *openAnswer) Read([]byte) (int, error) {
	select {
	case <-a.left:
	case <-a.closed:
	}
	return 0, io.EOF
}

// SetWriteDeadline is called by the goroutine that writes.
func (a *openAnswer) SetWriteDeadline(t time.Time) error {
	a.deadline = t
	return nil
}

// Write implements io.Writer. It sends b at once.
func (a *openAnswer) Write(b []byte) (int, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.over {
		return 0, net.ErrClosed
	}
	_ = a.control.SetWriteDeadline(a.deadline)
	defer a.control.SetWriteDeadline(time.Time{}) // else it would end the answer without a write, too
	n, err := a.w.Write(b)
	if err == nil {
		err = a.control.Flush()
	}
	return n, err
}

// CloseWrite ends the answer after a write in progress.
func (a *openAnswer) CloseWrite() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.over = true
		close(a.closed)
	}
	return nil
}

// Close ends the answer and a write in progress.
func (a *openAnswer) Close() error {
	a.mu.RLock()
	if !a.over {
		_ = a.control.SetWriteDeadline(time.Unix(1, 0)) // long ago
	}
	a.mu.RUnlock()
	return a.CloseWrite()
}
