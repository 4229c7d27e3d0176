package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Problem is an answer that is not a success: the problem document of the service (RFC 9457), or
// the status alone if something else, such as a proxy, answered.
type Problem struct {
	Type      string  `json:"type"` // path of a page that explains the code
	Title     string  `json:"title"`
	Status    int     `json:"status"` // of the answer
	Detail    string  `json:"detail"` // for people
	Instance  string  `json:"instance"`
	Code      string  `json:"code"` // for programs; "" without a problem document
	RequestID string  `json:"request_id"`
	Errors    []Error `json:"errors"` // values that are not valid, of a 400

	RequiredScope string `json:"required_scope"` // of insufficient_scope
	RunID         string `json:"run_id"`         // of agent_failed and price_unavailable, as ErrorCode and Retryable
	ErrorCode     string `json:"error_code"`
	Retryable     bool   `json:"retryable"`

	// RetryAfter is how long the service asks to wait; 0 if it does not.
	RetryAfter time.Duration `json:"-"`

	KeyFrom string `json:"-"` // of the client that sent the request
	// Mistyped is set if the key of a 401 has a typing error: its checksum does not fit.
	Mistyped bool `json:"-"`

	body []byte // of the answer
}

// Error is a value of a request that is not valid.
type Error struct {
	Pointer   string `json:"pointer"` // into the body
	Parameter string `json:"parameter"`
	Header    string `json:"header"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// Error implements error. The text of a service may have control characters.
func (p *Problem) Error() string {
	switch {
	case p.Code == "invalid_credentials":
		return fmt.Sprintf("the service refuses the login (401): %s", p.Reason())
	case p.Code == "no_signal":
		return "the agent has no signal: " + p.Reason()
	case p.Mistyped:
		return "the service refuses the key (401): its checksum does not fit, so it has a typing error or is not whole"
	case p.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the service refuses the key (401): %s", p.Reason())
	case p.Temporary() || p.Status >= 500:
		return fmt.Sprintf("the service answers %d: %s", p.Status, p.Reason())
	}
	return fmt.Sprintf("the service refuses the request (%d): %s", p.Status, p.Reason())
}

// Reason returns why the request was refused: the faults of its values, else the detail.
func (p *Problem) Reason() string {
	all := make([]string, 0, len(p.Errors))
	for _, e := range p.Errors {
		all = append(all, strings.TrimPrefix(cmp.Or(e.Pointer, e.Parameter, e.Header)+": "+e.Detail, ": "))
	}
	return cmp.Or(strings.Join(all, "; "), p.Detail, http.StatusText(p.Status))
}

// Temporary reports whether the same request may succeed later.
func (p *Problem) Temporary() bool {
	if p.Code == "price_unavailable" {
		return p.Retryable
	}
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return p.Code == "idempotency_in_progress"
}

// maxReason limits the text of an answer that is no problem document, in bytes.
const maxReason = 300

// readProblem returns the problem of an answer that is not a success.
func readProblem(status int, body []byte) *Problem {
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" && p.Detail == "" {
		p = Problem{}
		if text := strings.TrimSpace(string(body)); text != "" && text[0] != '<' && text[0] != '{' {
			p.Detail = strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
		}
	}
	p.Status, p.body = status, body
	return &p
}

// Failure is a reason for which a service cannot be reached.
type Failure string

// The reasons. Other is any that is not named, such as a connection that broke.
const (
	NotListening  Failure = "nothing listens"
	NoHost        Failure = "there is no such host"
	NoRoute       Failure = "the host cannot be reached"
	NotTrusted    Failure = "the certificate is not trusted"
	NoTLS         Failure = "the service answers without TLS"
	NeedsTLS      Failure = "the service answers with TLS only"
	AnotherServer Failure = "another server answers"
	Other         Failure = ""
)

// ConnectError is the error of a service that cannot be reached.
type ConnectError struct {
	Kind Failure
	Host string // with the port, as in the address
	Err  error  // the cause; may be nil
	// Again is set if the service answered there before and may come back.
	Again bool
}

// Error implements error.
func (e *ConnectError) Error() string {
	host, _, err := net.SplitHostPort(e.Host)
	if err != nil {
		host = e.Host
	}
	switch e.Kind {
	case NotListening:
		return fmt.Sprintf("nothing listens at %s", e.Host)
	case NoHost:
		return fmt.Sprintf("there is no host %q", host)
	case NoRoute:
		return fmt.Sprintf("%s cannot be reached: %v", e.Host, rootCause(e.Err))
	case NotTrusted:
		return fmt.Sprintf("the certificate of %s is not trusted: %v", e.Host, rootCause(e.Err))
	case NoTLS:
		return fmt.Sprintf("%s answers without TLS: give http://%s", e.Host, e.Host)
	case NeedsTLS:
		return fmt.Sprintf("%[1]s is a port for HTTPS: give https://%[1]s", e.Host)
	case AnotherServer:
		p, _ := errors.AsType[*Problem](e.Err)
		return fmt.Sprintf("no agentsignal answers at %s (%v)", e.Host, p.Status)
	default:
	}
	if errors.Is(e.Err, context.DeadlineExceeded) {
		return fmt.Sprintf("%s does not answer in time", e.Host)
	}
	return fmt.Sprintf("connect: %v", rootCause(e.Err))
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Temporary reports whether a retry may help.
func (e *ConnectError) Temporary() bool {
	switch e.Kind {
	case NoTLS, NeedsTLS, NotTrusted, AnotherServer:
		return false
	case NotListening, NoHost, NoRoute:
		return e.Again
	default:
		return true
	}
}

// connectError explains why there was no answer from address. again is set if the service has
// answered there before.
func connectError(address *url.URL, err error, again bool) error {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		expired   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	e := &ConnectError{Host: address.Host, Err: err, Again: again}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		e.Kind = NoTLS
	case errors.As(err, &authority), errors.As(err, &name), errors.As(err, &expired):
		e.Kind = NotTrusted
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Kind = NoHost
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Kind = NotListening
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Kind = NoRoute
	}
	return e
}

// rootCause returns the innermost error of a chain, whose text is without the address.
func rootCause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// Temporary reports whether what failed with err may succeed later.
func Temporary(err error) bool {
	if e, ok := errors.AsType[*ConnectError](err); ok {
		return e.Temporary()
	}
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Temporary()
}
