// Package remote is a running service as the commands reach it: its address as people
// write it, the API key, requests, and a sentence for each way in which they fail.
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

// knownPaths are the paths that people copy along with the address of a service.
var knownPaths = []string{"/v1/ws/dashboard", "/ws/dashboard", "/readyz", "/docs", "/v1"}

// ParseAddress reads the address of a service as people write it: with http, https, ws
// or wss or without a scheme, with the path of the stream or of the API or without.
// The result has the scheme http or https and at most the path of a proxy before
// the service, without a slash at its end.
func ParseAddress(text string) (*url.URL, error) {
	const form = "give an address like http://localhost:8080"
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // it would repeat the address, which may hold a password
		return nil, errors.New("it is no address: " + form)
	case u.User != nil:
		return nil, errors.New("an address has no user name: give a key by --key-file or AGENTSIGNAL_API_KEY")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("an address has no query and no fragment: " + form)
	case u.Hostname() == "" || u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return nil, errors.New("it names no host, or no port behind its colon: " + form)
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "http"
	case "https", "wss":
		u.Scheme = "https"
	default:
		return nil, fmt.Errorf("%q is none of http, https, ws and wss: %s", u.Scheme, form)
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

// Fault is an error that trying again does not cure.
type Fault struct {
	Text   string
	Status int // HTTP status of the answer; 0 without an answer
}

// Error implements error.
func (f *Fault) Error() string { return f.Text }

// ConnectFault explains why no connection to the service at address was made. It returns
// a *Fault if trying again does not help. before reports whether the service has answered
// at the address already: then it may come back.
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
		return &Fault{Text: fmt.Sprintf("nothing listens at %s: start the service, or give its address by --url",
			address.Host)}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &Fault{Text: fmt.Sprintf("%s cannot be reached: %v", address.Host, rootCause(err))}
	}
	return fmt.Errorf("connect: %w", rootCause(err))
}

// rootCause returns the innermost of a chain of errors, whose text is without the address.
func rootCause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// isTLSRefusal reports whether an answer is the one of Go's server to HTTP on a port for
// HTTPS.
func isTLSRefusal(status int, body []byte) bool {
	return status == http.StatusBadRequest && strings.Contains(string(body), "HTTP request to an HTTPS server")
}

// AnswerFault explains an answer of the service at address that is not a success. It
// returns a *Fault if trying again does not help.
func AnswerFault(address *url.URL, status int, body []byte) error {
	reason := faults(body)
	if reason == "" || strings.HasPrefix(strings.TrimSpace(reason), "<") {
		reason = http.StatusText(status)
	}
	switch {
	case isTLSRefusal(status, body):
		return &Fault{Status: status, Text: fmt.Sprintf("%s is a port for HTTPS: give https://%s", address.Host,
			address.Host)}
	case status == http.StatusUnauthorized:
		return &Fault{Status: status, Text: fmt.Sprintf("the service refuses the key (401): %s See agentsignal key list",
			reason)}
	case status == http.StatusNotFound || status < 400:
		return &Fault{Status: status, Text: fmt.Sprintf("no agentsignal answers at %s (%d): see --url", address, status)}
	case status == http.StatusTooManyRequests || status >= 500:
		return fmt.Errorf("the service answers %d: %s", status, reason)
	}
	return &Fault{Status: status, Text: fmt.Sprintf("the service refuses the request (%d): %s", status, reason)}
}

// LocalURL returns the address on this machine of a service that listens at addr,
// host:port.
func LocalURL(addr string, c configs.TLS) string {
	scheme := "http"
	if c.CertFile != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr) // bound, or checked by Load
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
