package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/idna"
)

// Destination is where requests go and what signs them, worked out once for all
// attempts. It does not change, and is safe for concurrent use.
type Destination struct {
	URL  string
	to   endpointAddress
	name string // of the host, without port, by which requests to it are counted
	host string // as requests name it
	path string // and query
	err  error  // why URL leads nowhere

	signers []*signer // of the secrets, the newest first
}

// NewDestination returns the destination of a URL. There must be a secret; the newest
// is the first.
func NewDestination(url string, secrets ...string) *Destination {
	d := &Destination{URL: url}
	d.to, d.host, d.path, d.err = parseEndpoint(url)
	d.name = hostName(d.to.address)
	for _, s := range secrets {
		d.signers = append(d.signers, newSigner(s))
	}
	return d
}

// hostName returns the name in address, host:port, the same for all ways to write it.
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

// isAddress reports whether the URL names an address, or this machine, and not another
// host by its name.
func (d *Destination) isAddress() bool {
	name, _, err := net.SplitHostPort(d.to.address)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(name)
	return err == nil || isLocalhost(name)
}

// parseEndpoint returns where a URL leads, and what a request to it says of that.
func parseEndpoint(text string) (to endpointAddress, host, path string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return to, "", "", err
	}
	name, port := u.Hostname(), u.Port()
	if !isASCII(name) {
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

// plainQuery returns a query as it may stand in a request line: url.Parse leaves in it
// spaces and what is no ASCII, as people write them.
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

// signer signs by one secret.
type signer struct {
	body     macs // of X-Service-Signature
	standard macs // of Webhook-Signature
}

func newSigner(secret string) *signer {
	return &signer{body: macs{key: []byte(secret)}, standard: macs{key: standardKey(secret)}}
}

// macs keeps HMAC-SHA256 states of a key that are not in use: setting one up takes as
// long as signing a short body.
type macs struct {
	key  []byte
	pool sync.Pool // of hash.Hash
}

// sum returns the HMAC of parts, one after the other.
func (m *macs) sum(parts ...[]byte) (sum [sha256.Size]byte) {
	mac, ok := m.pool.Get().(hash.Hash)
	if !ok {
		mac = hmac.New(sha256.New, m.key)
	}
	for _, p := range parts {
		mac.Write(p)
	}
	mac.Sum(sum[:0])
	mac.Reset()
	m.pool.Put(mac)
	return sum
}

// appendSignature adds the value of X-Service-Signature.
func (s *signer) appendSignature(b, body []byte) []byte {
	sum := s.body.sum(body)
	return hex.AppendEncode(append(b, signaturePrefix...), sum[:])
}

// appendStandard adds a signature of Webhook-Signature.
func (s *signer) appendStandard(b []byte, id string, timestamp int64, body []byte) []byte {
	head := make([]byte, 0, 64)
	head = append(append(head, id...), '.')
	head = append(strconv.AppendInt(head, timestamp, 10), '.')
	sum := s.standard.sum(head, body)
	return base64.StdEncoding.AppendEncode(append(b, standardPrefix...), sum[:])
}

// appendStandards adds the value of Webhook-Signature: a signature by each of the
// secrets, which are more than one while the previous secret is still accepted.
func (d *Destination) appendStandards(b []byte, id string, timestamp int64, body []byte) []byte {
	for i, s := range d.signers {
		if i > 0 {
			b = append(b, ' ')
		}
		b = s.appendStandard(b, id, timestamp, body)
	}
	return b
}
