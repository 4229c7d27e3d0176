// Package sender makes attempts to deliver: signed POST requests over HTTP/1.1, within hard
// limits of time and size. It is not a general client:
// deploy/decisions/0012-one-goroutine-a-request.md explains why it does not use net/http's.
package sender

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// The results of attempts, for agentsignal_webhook_attempts_total.
const (
	ClassSuccess     = "success"
	ClassRedirect    = "redirect"
	ClassClientError = "client_error"
	ClassServerError = "server_error"
	ClassTimeout     = "timeout"
	ClassConnection  = "connection"
	ClassTLS         = "tls"
	ClassDNS         = "dns"
	ClassBlocked     = "blocked"
)

// Classes lists them.
var Classes = []string{
	ClassSuccess, ClassRedirect, ClassClientError, ClassServerError, ClassTimeout,
	ClassConnection, ClassTLS, ClassDNS, ClassBlocked,
}

// maxHeaderBytes limits the status line and headers of an answer, including interim answers
// (1xx).
const maxHeaderBytes = 32 << 10

// Options are the settings of a Sender.
type Options struct {
	Guard          *guard.Guard   // default: public addresses, and TLS only
	UserAgent      string         // default "agentsignal"
	Timeout        time.Duration  // of a whole attempt; default 15 s
	ConnectTimeout time.Duration  // of look-up, connection and TLS handshake together; default 5 s
	IdleTimeout    time.Duration  // after which an unused connection is closed; default 90 s
	MaxIdlePerHost int            // unused ones to one host and port; default 64
	RootCAs        *x509.CertPool // default those of the system
	Resolver       *net.Resolver  // default net.DefaultResolver
	Log            *slog.Logger   // nil to discard
	// Now is the service's clock, by which a date in Retry-After is understood; default time.Now.
	Now func() time.Time
}

// Sender makes attempts. It follows no redirect and uses no proxy, which would connect to
// addresses that the guard cannot check. It is safe for concurrent use.
type Sender struct {
	connections connections
	timeout     time.Duration
	userAgent   string
	now         func() time.Time
}

// New returns a sender with the settings o. Its connections are closed by Close.
func New(o Options) *Sender {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sender{
		now: o.Now,
		connections: connections{
			log:            o.Log,
			dialer:         newDialer(o),
			idleTimeout:    cmp.Or(o.IdleTimeout, 90*time.Second),
			maxIdlePerHost: cmp.Or(o.MaxIdlePerHost, 64),
		},
		timeout:   cmp.Or(o.Timeout, 15*time.Second),
		userAgent: cmp.Or(o.UserAgent, "agentsignal"),
	}
}

// Close closes the connections; those in use are closed when their attempt ends.
func (s *Sender) Close() { s.connections.close() }

// Request is the content of one attempt.
type Request struct {
	To       *Destination
	Body     []byte // must not change until Send has returned
	Event    signal.EventID
	Type     signal.EventType
	Delivery signal.DeliveryID
	Attempt  int       // its number, from 1
	At       time.Time // of the attempt, for receivers and records

	// Timeout is that of the whole attempt; 0: the sender's.
	Timeout time.Duration
	// MaxBody is how many bytes the body of an answer may have where it matters; 0: it does not, and its beginning is
	// kept. The attempt has failed if the connection does before the body has ended.
	MaxBody int
}

// Result is the outcome of an attempt.
type Result struct {
	At         time.Time     // Request.At
	Duration   time.Duration // until the answer was read
	Status     int           // of the answer, or 0
	Error      string        // empty for a success
	Class      string        // one of Classes; empty if the attempt was cancelled
	Body       string        // the beginning of the answer's body: valid UTF-8, at most 8 KiB; see TooLong
	TooLong    bool          // the body has more than Request.MaxBody bytes; without that, Body is all of it, as it came
	RetryAfter time.Duration // of an answer 429 or 503, at most a year, or 0
}

// Cancelled reports whether the attempt was abandoned because its context had ended. Such a
// result must be dropped.
func (r *Result) Cancelled() bool { return r.Error == delivery.Cancelled }

// Send makes an attempt within the sender's timeout. It is a success if the answer's status
// is 2xx and its headers are complete, regardless of its body. When ctx ends, the result is
// Cancelled; the endpoint may still have received the request.
func (s *Sender) Send(ctx context.Context, r Request) Result {
	start := time.Now()
	result := Result{At: r.At}
	if r.To.err != nil { // Guard.CheckURL accepts none of these
		result.Error, result.Class = delivery.Blocked, ClassBlocked
		return result
	}
	buffer := requestBuffers.Get().(*[]byte)
	defer requestBuffers.Put(buffer)
	*buffer = s.appendRequest((*buffer)[:0], &r)
	answer, done, err := s.connections.post(ctx, r.To.to, *buffer, start.Add(cmp.Or(r.Timeout, s.timeout)))
	if err != nil {
		result.Error, result.Class = failure(ctx, err)
		if errors.Is(err, guard.ErrNotPublic) && !r.To.isAddress() {
			// The owner of a webhook must not learn which names exist inside the network; the
			// metrics show the attempt as blocked.
			result.Error = delivery.HostNotFound
		}
		result.Duration = time.Since(start)
		return result
	}
	if answer.StatusCode < 100 { // net/http accepts any three digits
		done(false)
		result.Error, result.Class = delivery.NoConnection, ClassConnection
		result.Duration = time.Since(start)
		return result
	}
	result.Status = answer.StatusCode
	result.Class = classOf(answer.StatusCode)
	if result.Class != ClassSuccess {
		result.Error = delivery.StatusError + strconv.Itoa(answer.StatusCode)
	}
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		result.RetryAfter = backoff.RetryAfter(answer.Header.Get("Retry-After"), s.now())
	}
	whole := false
	if answer.StatusCode != http.StatusSwitchingProtocols { // its body is the connection
		if r.MaxBody > 0 {
			result.Body, result.TooLong, err = readWhole(answer.Body, r.MaxBody)
		} else {
			result.Body = readBody(answer.Body)
		}
		whole = err == nil && ended(answer.Body)
	}
	if err != nil {
		result.Error, result.Class = failure(ctx, err)
	}
	done(whole)
	result.Duration = time.Since(start)
	return result
}

// requestBuffers hold requests while they are sent.
var requestBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4096)
	return &b
}}

// appendRequest adds the request line, headers and body of an attempt.
func (s *Sender) appendRequest(b []byte, r *Request) []byte {
	timestamp := r.At.Unix()
	b = append(b, "POST "...)
	b = append(b, r.To.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.To.host...)
	b = append(b, "\r\nUser-Agent: "...)
	b = append(b, s.userAgent...)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, r.To.ContentType...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	b = append(b, "\r\n"+signature.HeaderSignature+": "...)
	b = r.To.Signers.Append(b, r.Body)
	b = append(b, "\r\n"+signature.HeaderStandardSignature+": "...)
	b = r.To.Signers.AppendStandard(b, string(r.Event), timestamp, r.Body)
	for _, h := range [...]struct{ name, value string }{
		{signature.HeaderEvent, string(r.Type)},
		{signature.HeaderDelivery, string(r.Delivery)},
		{signature.HeaderStandardID, string(r.Event)},
	} {
		b = append(b, "\r\n"...)
		b = append(b, h.name...)
		b = append(b, ": "...)
		b = append(b, h.value...)
	}
	for _, name := range [...]string{signature.HeaderTimestamp, signature.HeaderStandardTimestamp} {
		b = append(b, "\r\n"...)
		b = append(b, name...)
		b = append(b, ": "...)
		b = strconv.AppendInt(b, timestamp, 10)
	}
	b = append(b, "\r\n"+signature.HeaderAttempt+": "...)
	b = strconv.AppendInt(b, int64(r.Attempt), 10)
	b = append(b, "\r\nTraceparent: "...)
	b = appendTraceparent(b, r)
	b = append(b, "\r\n\r\n"...)
	return append(b, r.Body...)
}

func classOf(status int) string {
	switch {
	case 200 <= status && status <= 299:
		return ClassSuccess
	case 300 <= status && status <= 399:
		return ClassRedirect
	case 400 <= status && status <= 499:
		return ClassClientError
	}
	return ClassServerError // including invalid ones, such as 999
}

// failure returns the error and class of an attempt without an answer. ctx is the caller's.
func failure(ctx context.Context, err error) (text, class string) {
	switch {
	case ctx.Err() != nil:
		return delivery.Cancelled, ""
	case errors.Is(err, guard.ErrAddressNotAllowed):
		return delivery.Blocked, ClassBlocked
	case isTimeout(err): // including that of a look-up
		return delivery.TimedOut, ClassTimeout
	case is[*net.DNSError](err):
		return delivery.HostNotFound, ClassDNS
	case is[*tlsError](err), isAlert(err):
		return delivery.TLSFailed, ClassTLS
	}
	return delivery.NoConnection, ClassConnection
}

// is reports whether err is or wraps an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// isAlert reports whether the endpoint has refused the handshake by an alert after the
// client's part of it, as in TLS 1.3. crypto/tls marks it only by the operation.
func isAlert(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error"
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// maxBodyRead bounds the bytes read of an answer's body, of which delivery.MaxResponseBody
// are kept. A connection with a longer answer is not reused.
const maxBodyRead = 64 << 10

var bodyBuffers = sync.Pool{New: func() any { return new([delivery.MaxResponseBody]byte) }}

// readBody returns the beginning of an answer's body as text, and reads the rest within
// limits, so that the connection can be reused. If reading fails, it returns the part it
// has. The request's context limits the time.
func readBody(r io.Reader) string {
	if r == http.NoBody {
		return ""
	}
	b := bodyBuffers.Get().(*[delivery.MaxResponseBody]byte)
	defer bodyBuffers.Put(b)
	n, err := io.ReadFull(r, b[:])
	if err != nil {
		return toText(b[:n], !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF))
	}
	// A failure here does not matter: the kept part has been read.
	more, _ := io.CopyN(io.Discard, r, maxBodyRead-delivery.MaxResponseBody)
	return toText(b[:], more > 0)
}

// readWhole returns a body of at most limit bytes, as it came. Of a longer one it reads no more than a byte beyond limit.
func readWhole(r io.Reader, limit int) (body string, tooLong bool, err error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil || len(b) > limit {
		return "", err == nil, err
	}
	return string(b), false, nil
}

// toText returns b as valid UTF-8 of at most delivery.MaxResponseBody bytes. Invalid bytes
// become U+FFFD. If the body was cut, an incomplete character at the end is dropped.
func toText(b []byte, cut bool) string {
	if cut {
		b = b[:len(b)-tornBytes(b)]
	}
	s := string(b)
	if utf8.ValidString(s) {
		return s
	}
	// U+FFFD is longer than the bytes it replaces.
	return delivery.CutText(strings.ToValidUTF8(s, string(utf8.RuneError)), delivery.MaxResponseBody)
}

// tornBytes returns the length of an incomplete character at the end of b, 0 to 3.
func tornBytes(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// appendTraceparent adds the W3C Trace Context of an attempt. The trace is that of the event: its identifier is the
// event's ULID in hexadecimal, so that all deliveries of an event and all their attempts are in one, whatever
// process makes them. The parent is the attempt. Its flags are 0, since the service records no span of it.
func appendTraceparent(b []byte, r *Request) []byte {
	trace, ok := signal.ULIDBytes(string(r.Event))
	if !ok {
		sum := sha256.Sum256([]byte(r.Event))
		trace = [16]byte(sum[:])
	}
	id := binary.BigEndian.AppendUint64(append([]byte(nil), r.Delivery...), uint64(r.Attempt))
	parent := sha256.Sum256(id)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, parent[:8])
	return append(b, "-00"...)
}
