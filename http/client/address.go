package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
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
		return nil, errors.New("an address has no user name: a key is given apart from it")
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
