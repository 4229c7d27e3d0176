package sender

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// Destination is the address and the signers of requests, prepared once for all attempts.
// It is immutable.
type Destination struct {
	URL      string
	to       endpointAddress
	HostName string // without port; requests in flight are counted by it
	host     string // the header Host
	path     string // and query
	err      error  // why URL is invalid, or nil

	ContentType string // of the bodies
	Signers     signature.Signers
}

// NewDestination returns the destination of JSON to a URL, with one or more secrets, the newest
// first.
func NewDestination(url string, secrets ...string) *Destination {
	d := &Destination{URL: url, ContentType: "application/json", Signers: signature.NewSigners(secrets...)}
	d.to, d.host, d.path, d.err = parseEndpoint(url)
	d.HostName = hostName(d.to.address)
	return d
}

// hostName returns the name in address, host:port, in a canonical form.
func hostName(address string) string {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// isAddress reports whether the host of the URL is an address or localhost, not a name.
func (d *Destination) isAddress() bool {
	name, _, err := net.SplitHostPort(d.to.address)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(name)
	return err == nil || guard.IsLocalhost(name)
}

// parseEndpoint returns the address of a URL, and the Host and path of its requests.
func parseEndpoint(text string) (to endpointAddress, host, path string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return to, "", "", err
	}
	name, port := u.Hostname(), u.Port()
	if strings.ContainsFunc(name, notASCII) {
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return to, "", "", err
		}
	}
	switch u.Scheme {
	case "https":
		to.secure, port = true, cmp.Or(port, "443")
	case "http":
		port = cmp.Or(port, "80")
	default:
		return to, "", "", errors.New("the scheme is not http or https")
	}
	if name == "" {
		return to, "", "", errors.New("there is no host")
	}
	to.address = net.JoinHostPort(name, port)
	host = to.address
	if u.Port() == "" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	u.RawQuery = plainQuery(u.RawQuery)
	return to, host, u.RequestURI(), nil
}

func notASCII(r rune) bool { return r >= utf8.RuneSelf }

// plainQuery escapes a query for a request line: url.Parse keeps spaces and characters
// beyond ASCII.
func plainQuery(text string) string {
	var b []byte
	for i := range len(text) {
		if c := text[i]; ' ' < c && c < 0x7f {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}
