// Package guard decides which URLs may be registered as webhooks and which addresses may be
// connected to, so that clients cannot make the service send requests into its own network.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// maxHostLength and maxLabelLength are the limits of DNS, in bytes.
const (
	maxHostLength  = 253
	maxLabelLength = 63
)

// The error codes of CheckURL.
const (
	CodeInvalidFormat = "invalid_format"
	CodeTooLong       = "too_long"
	CodeNotAllowed    = "url_not_allowed"
	CodeHTTPSRequired = "https_required"
)

// ErrAddressNotAllowed is the error of a connection that was refused because of its address.
var ErrAddressNotAllowed = errors.New("the address is not allowed")

// ErrNotPublic is its cause if the address is neither public nor in an allowed network.
var ErrNotPublic = errors.New("it is not public")

// azureWireServer has a public address, but returns credentials to virtual machines of
// Azure.
var azureWireServer = netip.MustParsePrefix("168.63.129.16/32")

// lookupTimeout bounds the look-up of a host by CheckURL.
const lookupTimeout = 2 * time.Second

// loopback is the address of localhost if the resolver has none.
var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// Resolver finds the addresses of a host. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are the settings of a Guard.
type Options struct {
	// AllowedNetworks may be reached even if not public, and without TLS.
	AllowedNetworks []netip.Prefix
	AllowHTTP       bool     // without TLS to public addresses, too
	Resolver        Resolver // of CheckURL; default net.DefaultResolver
}

// Guard checks URLs at their registration and addresses at each connection. It is safe for
// concurrent use.
type Guard struct {
	allowed   []netip.Prefix
	allowHTTP bool
	resolver  Resolver
	public    *ssrf.Guardian // does not know allowed
}

// New returns a guard with the settings o.
func New(o Options) *Guard {
	g := &Guard{
		allowHTTP: o.AllowHTTP,
		resolver:  o.Resolver,
		public:    ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWireServer)),
	}
	if g.resolver == nil {
		g.resolver = net.DefaultResolver
	}
	for _, p := range o.AllowedNetworks {
		g.allowed = append(g.allowed, p.Masked())
	}
	return g
}

// CheckURL returns nil if text may be registered, else a *signal.Error of KindInvalid, or
// several joined by errors.Join, the gravest first. A host name is accepted regardless of
// its addresses, so that a client cannot discover names inside the operator's network; its
// addresses are checked at each connection.
func (g *Guard) CheckURL(ctx context.Context, text string) error {
	if utf8.RuneCountInString(text) > delivery.MaxWebhookURL {
		return fault(CodeTooLong, fmt.Sprintf("must have at most %d characters", delivery.MaxWebhookURL))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || !utf8.ValidString(text):
		return fault(CodeInvalidFormat, "must be a URL")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "":
		return fault(CodeInvalidFormat, "must be an absolute URL that begins with https://")
	case u.User != nil:
		return fault(CodeInvalidFormat, "must have no user info")
	case strings.Contains(text, "#"):
		return fault(CodeInvalidFormat, "must have no fragment")
	}
	host, err := readHost(u.Hostname())
	if err != nil {
		return err
	}
	var faults []error
	if port := u.Port(); !portAllowed(port, u.Host) {
		faults = append(faults, fault(CodeNotAllowed, "the port must be 443, 80 or 1024 and above"))
	}
	addresses := host.addresses
	if IsLocalhost(host.name) {
		if addresses = g.lookUp(ctx, host.name); len(addresses) == 0 {
			addresses = loopback
		}
	}
	if !g.reachable(addresses) {
		faults = append(faults, fault(CodeNotAllowed, "the host must be a name or a public address, "+
			"unless the operator allows others (webhooks.allowed_networks)"))
	}
	if len(addresses) == 0 && u.Scheme == "http" && !g.allowHTTP {
		addresses = g.lookUp(ctx, host.name)
	}
	if u.Scheme == "http" && !g.allowHTTP && !g.within(addresses) {
		faults = append(faults, fault(CodeHTTPSRequired, "must begin with https://, "+
			"unless the operator allows http:// (webhooks.allowed_networks, webhooks.allow_http)"))
	}
	if len(faults) == 1 {
		return faults[0]
	}
	return errors.Join(faults...)
}

// Control is the net.Dialer.Control of connections with TLS: it refuses addresses
// that are neither public nor in an allowed network, with ErrAddressNotAllowed.
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	_, err := g.dialled(address)
	return err
}

// ControlPlain is like Control, for connections without TLS: it also refuses public
// addresses unless AllowHTTP is set.
func (g *Guard) ControlPlain(_, address string, _ syscall.RawConn) error {
	a, err := g.dialled(address)
	if err == nil && !g.allowHTTP && !g.isAllowed(a) {
		return fmt.Errorf("%w: %s needs TLS", ErrAddressNotAllowed, a)
	}
	return err
}

// dialled parses and checks the host:port of a dialer, whose host is resolved.
func (g *Guard) dialled(address string) (netip.Addr, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %w", ErrAddressNotAllowed, err)
	}
	if !portNumberAllowed(ap.Port()) {
		return netip.Addr{}, fmt.Errorf("%w: port %d", ErrAddressNotAllowed, ap.Port())
	}
	return ap.Addr(), g.check(ap.Addr())
}

// check returns nil if a may be reached, else ErrAddressNotAllowed with its cause.
func (g *Guard) check(a netip.Addr) error {
	if g.isAllowed(a) {
		return nil
	}
	if err := g.public.SafeAddr(a.Unmap()); err != nil {
		return fmt.Errorf("%w: %w: %w", ErrAddressNotAllowed, ErrNotPublic, err)
	}
	return nil
}

// IsLocalhost reports whether name is localhost or lies below it.
func IsLocalhost(name string) bool {
	name = strings.TrimSuffix(name, ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isAllowed reports whether a lies in one of AllowedNetworks.
func (g *Guard) isAllowed(a netip.Addr) bool {
	return slices.ContainsFunc(g.allowed, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// reachable reports whether none of the addresses is forbidden.
func (g *Guard) reachable(addresses []netip.Addr) bool {
	return !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return g.check(a) != nil })
}

// within reports whether there are addresses and all lie in AllowedNetworks.
func (g *Guard) within(addresses []netip.Addr) bool {
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !g.isAllowed(a) })
}

// lookUp returns the addresses of a host name, or none if it does not resolve in time.
func (g *Guard) lookUp(ctx context.Context, name string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := g.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	return addresses
}

// host is the host of a URL: a name or one address.
type host struct {
	name      string
	addresses []netip.Addr
}

// readHost reads the host of a URL, without brackets and port. Names are converted to the
// form for look-ups. Numbers that a system's resolver might read as an address (2130706433,
// 0x7f.1, 127.0.0.1.) are refused: no DNS name ends in a number.
func readHost(text string) (host, error) {
	if strings.ContainsRune(text, ':') {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return host{}, fault(CodeInvalidFormat, "the host must be a name or an address")
		}
		return host{addresses: []netip.Addr{a}}, nil
	}
	name, err := idna.Lookup.ToASCII(text)
	if err != nil && !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		name, err = strings.ToLower(text), nil // such as one with an underscore
	}
	if err != nil || !isName(name) {
		return host{}, fault(CodeInvalidFormat, "the host must be a name or an address")
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return host{addresses: []netip.Addr{a}}, nil
	}
	if endsInNumber(name) {
		return host{}, fault(CodeNotAllowed, "an address must be four decimal numbers")
	}
	return host{name: name}, nil
}

// isName reports whether s can be looked up: labels of letters, digits, hyphens and
// underscores, with an optional dot at the end.
func isName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > maxHostLength {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabelLength {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// endsInNumber reports whether the last label of a name is a number, decimal, octal or
// hexadecimal.
func endsInNumber(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// portAllowed reports whether the port of a URL may be connected to. An empty one stands
// for the scheme's port, unless hostport ends in a colon.
func portAllowed(port, hostport string) bool {
	if port == "" {
		return !strings.HasSuffix(hostport, ":")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && portNumberAllowed(uint16(n))
}

func portNumberAllowed(n uint16) bool { return n == 443 || n == 80 || n >= 1024 }

func fault(code, message string) error {
	return &signal.Error{Kind: signal.KindInvalid, Code: code, Message: message}
}
