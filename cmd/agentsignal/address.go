package main

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
)

// knownPaths are what people copy behind the address of a service.
var knownPaths = []string{"/v1/ws/dashboard", "/ws/dashboard", "/readyz", "/docs", "/v1"}

// parseAddress reads the address of a service as people write it: with http, https, ws
// or wss or without a scheme, with the path of the stream or of the API or without.
// What it returns has the scheme http or https and at most the path of a proxy before
// the service, without a slash at its end.
func parseAddress(text string) (*url.URL, error) {
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

// fault is an error that the same command meets again: coming back does not help.
type fault struct {
	text   string
	status int // of the answer; 0 if none came
}

func (f *fault) Error() string { return f.text }

// connectFault explains why no connection to the service at address was made. It returns
// a fault if trying again does not help, where a service has answered there before
// or not.
func connectFault(address *url.URL, err error, before bool) error {
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
		return &fault{text: fmt.Sprintf("%s answers without TLS: give http://%s", address.Host, address.Host)}
	case errors.As(err, &authority), errors.As(err, &name), errors.As(err, &expired):
		return &fault{text: fmt.Sprintf("the certificate of %s is not trusted: %v", address.Host, rootCause(err))}
	case before:
		return fmt.Errorf("connect: %w", rootCause(err))
	case errors.As(err, &dns) && dns.IsNotFound:
		return &fault{text: fmt.Sprintf("there is no host %q: see --url", address.Hostname())}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &fault{text: fmt.Sprintf("nothing listens at %s: start the service, or give its address by --url", address.Host)}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &fault{text: fmt.Sprintf("%s cannot be reached: %v", address.Host, rootCause(err))}
	}
	return fmt.Errorf("connect: %w", rootCause(err))
}

// rootCause returns the innermost of a chain of errors, which says it without the address.
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

// answerFault explains an answer of the service at address that is no success. It returns
// a fault if trying again does not help.
func answerFault(address *url.URL, status int, body []byte) error {
	reason := faults(body)
	if reason == "" || strings.HasPrefix(strings.TrimSpace(reason), "<") {
		reason = http.StatusText(status)
	}
	switch {
	case isTLSRefusal(status, body):
		return &fault{status: status, text: fmt.Sprintf("%s is a port for HTTPS: give https://%s", address.Host, address.Host)}
	case status == http.StatusUnauthorized:
		return &fault{status: status, text: fmt.Sprintf("the service refuses the key (401): %s See agentsignal key list", reason)}
	case status == http.StatusNotFound || status < 400:
		return &fault{status: status, text: fmt.Sprintf("no agentsignal answers at %s (%d): see --url", address, status)}
	case status == http.StatusTooManyRequests || status >= 500:
		return fmt.Errorf("the service answers %d: %s", status, reason)
	}
	return &fault{status: status, text: fmt.Sprintf("the service refuses the request (%d): %s", status, reason)}
}
