package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// hosts is a resolver that knows some names. Others do not exist.
type hosts map[string][]string

func (h hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	texts, ok := h[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list, nil
}

// knownHosts are those of the tests of CheckURL.
var knownHosts = hosts{
	"example.com":             {"93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"},
	"example.com.":            {"93.184.215.14"},
	"mapped.example.com":      {"::ffff:93.184.215.14"},
	"xn--bcher-kva.example":   {"93.184.215.15"},
	"under_score.example.com": {"93.184.215.16"},
	"localhost":               {"127.0.0.1", "::1"},
	"inside.example.com":      {"10.1.2.3"},
	"mixed.example.com":       {"93.184.215.14", "192.168.1.1"},
	"mixed6.example.com":      {"93.184.215.14", "fd00::1"},
	"mappedinside.example":    {"::ffff:10.1.2.3"},
	"metadata.example.com":    {"169.254.169.254"},
	"azure.example.com":       {"168.63.129.16"},
	"both.example.com":        {"10.1.2.3", "10.2.3.4"},
	"partly.example.com":      {"10.1.2.3", "93.184.215.14"},
}

// codesOf lists the codes of what CheckURL found.
func codesOf(tb testing.TB, err error) []string {
	tb.Helper()
	if err == nil {
		return nil
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var codes []string
	for _, one := range all {
		e, ok := errors.AsType[*signal.Error](one)
		if !ok || e.Kind != signal.KindInvalid || e.Message == "" {
			tb.Errorf("%#v is not a fault for clients", one)
			continue
		}
		codes = append(codes, e.Code)
	}
	return codes
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestURLsThatMayBeRegistered(t *testing.T) {
	t.Parallel()
	g := New(Options{Resolver: knownHosts})
	for _, text := range []string{
		"https://example.com",
		"https://example.com/hooks/signals?token=a%20b&x=é",
		"https://EXAMPLE.com:443/",
		"HTTPS://example.com/",
		"https://example.com:80/", "https://example.com:1024/", "https://example.com:65535/",
		"https://example.com./",
		"https://mapped.example.com/",
		"https://under_score.example.com/",
		"https://bücher.example/", "https://xn--bcher-kva.example/",
		"https://93.184.215.14/", "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:8443/",
		"https://no-such-host.example.net/",
		"https://intranet/",
		"https://" + strings.Repeat("a.", 126) + "b/",
		"https://example.com/" + strings.Repeat("a", delivery.MaxWebhookURL-len("https://example.com/")),
		"https://example.com/" + strings.Repeat("ü", delivery.MaxWebhookURL-len("https://example.com/")),
	} {
		if err := g.CheckURL(t.Context(), text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// checkCodes checks the codes of the faults of a URL.
func checkCodes(t *testing.T, g *Guard, url string, want ...string) {
	t.Helper()
	if got := codesOf(t, g.CheckURL(t.Context(), url)); !slices.Equal(got, want) {
		t.Errorf("%q: %v, want %v", url, got, want)
	}
}

func TestInvalidURLs(t *testing.T) {
	t.Parallel()
	g := New(Options{Resolver: knownHosts, AllowHTTP: true})
	for _, text := range []string{
		"", " ", "/", "example.com", "example.com/hook", "//example.com/",
		"https:", "https://", "https:///hook", "https:example.com",
		"ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "unix:///x.sock",
		" https://example.com/", "https://example.com/\n", "https://exa mple.com/", "https://example.com\\@10.0.0.1/",
		"https://%zz/", "https://%31%32%37.0.0.1/",
		"https://user@example.com/", "https://user:password@example.com/", "https://@example.com/",
		"https://example.com/#part", "https://example.com/#",
		"https://example..com/", "https://.example.com/", "https://./",
		"https://example.com../", "https://exa$mple.com/",
		"https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 127) + "b/",
		"https://[::1/", "https://[::g]/", "https://[]/", "https://::1/", "https://1:2:3/",
		"https://example.com:http/", "https://example.com:-1/",
		"https://exa\x00mple.com/", "https://\u202eexample.com/", "https://exam\xffple.com/",
	} {
		checkCodes(t, g, text, CodeInvalidFormat)
	}
	for _, letter := range []string{"a", "ü"} {
		long := "https://example.com/" + strings.Repeat(letter, delivery.MaxWebhookURL+1-len("https://example.com/"))
		checkCodes(t, g, long, CodeTooLong)
	}
}

// badAddresses are literal addresses that no webhook may reach.
var badAddresses = []string{
	"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1",
	"100.64.0.1", "100.100.100.200", "169.254.0.1", "169.254.169.254", "169.254.170.2", "168.63.129.16",
	"192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
	"240.0.0.1", "255.255.255.255", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]",
	"[::ffff:169.254.169.254]", "[::ffff:168.63.129.16]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
	"[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001::1]", "[2001:db8::1]",
	"[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[fe80::1%25lo]", "[fe80::1%25eth0]", "[fec0::1]", "[ff02::1]",
	"[100::1]", "[5f00::1]",
}

// oddAddresses are spellings of addresses, bad and good, that some resolvers accept.
var oddAddresses = []string{
	"2130706433", "017700000001", "0x7f000001", "0x7F000001", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1",
	"127.0.0.0x1", "127.0.0.01", "127.0.0.1.", "2130706433.", "0x7f.1", "1.2.3.4.5", "256.256.256.256",
	"93.184.215.014", "0x", "example.0x7f", "example.123",
	"１２７.０.０.１.", "１２７.1",
}

func TestAddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	g := New(Options{Resolver: knownHosts})
	names := []string{
		"localhost", "LOCALHOST", "localhost.", "a.localhost", "a.localhost.", "１２７.０.０.１", "①27.0.0.1", "127。0。0。1",
	}
	for _, host := range slices.Concat(badAddresses, oddAddresses, names) {
		for _, port := range []string{"", ":443", ":8443"} {
			checkCodes(t, g, "https://"+host+port+"/hook", CodeNotAllowed)
		}
	}
	for _, text := range badAddresses {
		address := strings.Replace(strings.Trim(text, "[]"), "%25", "%", 1)
		if err := g.Control("tcp", net.JoinHostPort(address, "443"), nil); !errors.Is(err, ErrAddressNotAllowed) {
			t.Errorf("dial %s: %v", address, err)
		}
	}
}

// A name of an internal address gets the same result as one that does not exist.
func TestNamesInsideAreNotDisclosed(t *testing.T) {
	t.Parallel()
	inside := []string{
		"inside.example.com", "mixed.example.com", "mixed6.example.com", "mappedinside.example",
		"metadata.example.com", "azure.example.com",
	}
	for _, options := range []Options{{}, {AllowHTTP: true}, {AllowedNetworks: prefixes("192.168.77.0/24")}} {
		options.Resolver = knownHosts
		g := New(options)
		for _, scheme := range []string{"http", "https"} {
			want := fmt.Sprint(g.CheckURL(t.Context(), scheme+"://no-such-host.example.net/"))
			for _, host := range inside {
				if got := fmt.Sprint(g.CheckURL(t.Context(), scheme+"://"+host+"/")); got != want {
					t.Errorf("%s://%s: %q, but an unknown one %q", scheme, host, got, want)
				}
			}
		}
	}
}

func TestPortsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	g := New(Options{Resolver: knownHosts, AllowedNetworks: prefixes("127.0.0.0/8")})
	const huge = "99999999999999999999"
	for _, port := range []string{"0", "1", "22", "25", "79", "81", "442", "444", "1023", "65536", huge, ""} {
		for _, host := range []string{"example.com", "127.0.0.1"} {
			checkCodes(t, g, "https://"+host+":"+port+"/", CodeNotAllowed)
		}
	}
	const public = "93.184.215.14"
	addresses := []string{public + ":25", "127.0.0.1:22", public + ":0", public, "example.com:443", "", "x"}
	for _, address := range addresses {
		if err := g.Control("tcp4", address, nil); !errors.Is(err, ErrAddressNotAllowed) {
			t.Errorf("dial %q: %v", address, err)
		}
	}
}

func TestWhereHTTPSIsRequired(t *testing.T) {
	t.Parallel()
	none, allowed := Options{}, Options{AllowHTTP: true}
	inside := Options{AllowedNetworks: prefixes("10.0.0.0/8", "::1/128", "127.0.0.0/8")}
	network := func(text string) Options { return Options{AllowedNetworks: prefixes(text)} }
	notAllowed, required := CodeNotAllowed, CodeHTTPSRequired
	tests := []struct {
		name    string
		options Options
		url     string
		want    []string
	}{
		{"a public host", none, "http://example.com/", []string{required}},
		{"a public host, with http allowed", allowed, "http://example.com/", nil},
		{"a public address", none, "http://93.184.215.14/", []string{required}},
		{"a private address", none, "http://10.1.2.3/", []string{notAllowed, required}},
		{"a private address, with http allowed", allowed, "http://10.1.2.3/", []string{notAllowed}},
		{"a private address and a bad port", allowed, "http://10.1.2.3:22/", []string{notAllowed, notAllowed}},
		{"an address of an allowed network", inside, "http://10.1.2.3:8080/", nil},
		{"a host of an allowed network", inside, "http://both.example.com/", nil},
		{"a host of an allowed network, with https", inside, "https://both.example.com/", nil},
		{"a mapped address of an allowed network", inside, "http://mappedinside.example/", nil},
		{"localhost, allowed", inside, "http://localhost:9000/", nil},
		{"localhost, half allowed", network("127.0.0.0/8"), "http://localhost:9000/", []string{notAllowed, required}},
		{"an unknown name below localhost, allowed", inside, "http://a.localhost:9000/", nil},
		{"a host partly in an allowed network", inside, "http://partly.example.com/", []string{required}},
		{"a host partly in an allowed network, with https", inside, "https://partly.example.com/", nil},
		{"a private address outside the allowed networks", inside, "https://192.168.1.1/", []string{notAllowed}},
		{"the wire server, allowed", network("168.63.129.16/32"), "http://168.63.129.16/", nil},
		{"a host that does not resolve", inside, "http://no-such-host.example.net/", []string{required}},
		{"a host that does not resolve, with http allowed", allowed, "http://no-such-host.example.net/", nil},
		{"a zone in an allowed network", network("fe80::/10"), "https://[fe80::1%25lo]/", []string{notAllowed}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.Resolver = knownHosts
			checkCodes(t, New(test.options), test.url, test.want...)
		})
	}
}

func TestConnectionsWithoutTLS(t *testing.T) {
	t.Parallel()
	const public, private = "93.184.215.14:80", "10.1.2.3:80"
	tests := []struct {
		name    string
		options Options
		address string
		allowed bool
	}{
		{"to a public address", Options{}, public, false},
		{"to a public address, with http allowed", Options{AllowHTTP: true}, public, true},
		{"to a private address, with http allowed", Options{AllowHTTP: true}, private, false},
		{"to an allowed network", Options{AllowedNetworks: prefixes("10.0.0.0/8")}, private, true},
		{"to an address outside the network", Options{AllowedNetworks: prefixes("10.0.0.0/8")}, public, false},
	}
	for _, test := range tests {
		if err := New(test.options).ControlPlain("tcp4", test.address, nil); (err == nil) != test.allowed {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// hanging is a resolver that does not answer.
type hanging struct{}

func (hanging) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAHangingResolverDelaysARegistrationByTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Resolver: hanging{}})
		start := time.Now()
		checkCodes(t, g, "http://example.com/", CodeHTTPSRequired)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		checkCodes(t, g, "https://localhost/", CodeNotAllowed)
	})
}

func FuzzCheckURL(f *testing.F) {
	others := []string{"example.com", "bücher.example:8443", "user@example.com"}
	for _, host := range slices.Concat(badAddresses, oddAddresses, others) {
		f.Add("https://" + host + "/")
		f.Add("http://" + host)
	}
	g := New(Options{Resolver: knownHosts})
	f.Fuzz(func(t *testing.T, text string) {
		err := g.CheckURL(t.Context(), text)
		codesOf(t, err)
		if err != nil {
			return
		}
		// The transport must read an accepted URL in the same way: https, and a host that is a
		// name or a public address.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, text, nil)
		if err != nil {
			t.Fatalf("%q was accepted but cannot be sent to: %v", text, err)
		}
		if req.URL.Scheme != "https" || req.URL.User != nil || req.URL.Fragment != "" {
			t.Errorf("accepted %q", text)
		}
		if a, err := netip.ParseAddr(req.URL.Hostname()); err == nil && g.check(a) != nil {
			t.Errorf("accepted %q, whose address is %s", text, a)
		}
	})
}
