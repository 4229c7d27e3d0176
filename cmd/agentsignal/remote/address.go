// Package remote is the client of a running service for commands: the address as people
// write it, the API key, requests, and an explanation of each failure.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/agentsignal/agentsignal/configs"
)

// knownPaths are the paths that people copy with the address of a service.
var knownPaths = []string{"/v1/ws/dashboard", "/ws/dashboard", "/readyz", "/docs", "/v1"}

// ParseAddress reads the address of a service as people write it: with the scheme http,
// https, ws, wss or none, and with or without the path of the stream or of the API. The
// result has the scheme http or https and at most the path of a proxy in front of the
// service, without a slash at its end.
func ParseAddress(text string) (*url.URL, error) {
	const form = "give an address like http://localhost:8080"
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // err repeats the address, which may hold a password
		return nil, errors.New("not an address: " + form)
	case u.User != nil:
		return nil, errors.New("an address has no user name: give a key by --key-file or AGENTSIGNAL_API_KEY")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("an address has no query and no fragment: " + form)
	case u.Hostname() == "" || u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return nil, errors.New("it names no host, or no port after its colon: " + form)
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "http"
	case "https", "wss":
		u.Scheme = "https"
	default:
		return nil, fmt.Errorf("the scheme %q is not http, https, ws or wss: %s", u.Scheme, form)
	}
	if u.Port() != "" {
		if _, err := net.LookupPort("tcp", u.Port()); err != nil {
			return nil, fmt.Errorf("%q is not a port: %s", u.Port(), form)
		}
	}
	path := strings.TrimRight(u.Path, "/")
	for _, known := range knownPaths {
		if rest, ok := strings.CutSuffix(path, known); ok {
			path = rest
			break
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(path, "/")}, nil
}

// Fault is an error that a retry cannot resolve.
type Fault struct {
	Text   string
	Status int // HTTP status of the answer; 0 without an answer
}

// Error implements error.
func (f *Fault) Error() string { return f.Text }

// ConnectFault explains why the connection to the service at address failed. It returns a
// *Fault if a retry cannot help. before is set if the service has answered at the address
// before and may come back.
func ConnectFault(address *url.URL, err error, before bool) error {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		expired   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &Fault{Text: fmt.Sprintf("%s answers without TLS: give http://%s", address.Host, address.Host)}
	case errors.As(err, &authority), errors.As(err, &name), errors.As(err, &expired):
		return &Fault{Text: fmt.Sprintf("the certificate of %s is not trusted: %v", address.Host, rootCause(err))}
	case before:
		return fmt.Errorf("connect: %w", rootCause(err))
	case errors.As(err, &dns) && dns.IsNotFound:
		return &Fault{Text: fmt.Sprintf("there is no host %q: see --url", address.Hostname())}
	case errors.Is(err, syscall.ECONNREFUSED):
		const advice = "nothing listens at %s: start the service, or give its address by --url"
		return &Fault{Text: fmt.Sprintf(advice, address.Host)}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &Fault{Text: fmt.Sprintf("%s cannot be reached: %v", address.Host, rootCause(err))}
	}
	return fmt.Errorf("connect: %w", rootCause(err))
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

// isTLSRefusal reports whether an answer is that of Go's server to HTTP on a port for HTTPS.
func isTLSRefusal(status int, body []byte) bool {
	return status == http.StatusBadRequest && strings.Contains(string(body), "HTTP request to an HTTPS server")
}

// AnswerFault explains an answer of the service at address that is not a success. It returns
// a *Fault if a retry cannot help.
func AnswerFault(address *url.URL, status int, body []byte) error {
	reason := faults(body)
	if reason == "" || strings.HasPrefix(strings.TrimSpace(reason), "<") {
		reason = http.StatusText(status)
	}
	text := fmt.Sprintf("the service refuses the request (%d): %s", status, reason)
	switch {
	case isTLSRefusal(status, body):
		text = fmt.Sprintf("%[1]s is a port for HTTPS: give https://%[1]s", address.Host)
	case status == http.StatusUnauthorized:
		text = fmt.Sprintf("the service refuses the key (401): %s See agentsignal key list", reason)
	case status == http.StatusNotFound || status < 400:
		text = fmt.Sprintf("no agentsignal answers at %s (%d): see --url", address, status)
	case status == http.StatusTooManyRequests || status >= 500:
		return fmt.Errorf("the service answers %d: %s", status, reason)
	}
	return &Fault{Text: text, Status: status}
}

// LocalURL returns the URL on this machine of a service that listens at addr, host:port.
func LocalURL(addr string, c configs.TLS) string {
	scheme := "http"
	if c.CertFile != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr) // is bound or has been checked
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
