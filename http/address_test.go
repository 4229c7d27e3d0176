package http_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/agentsignal/agentsignal/http/limits"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no trusted proxy", "203.0.113.9:1", []string{"198.51.100.1"}, "203.0.113.9"},
		{"one proxy", "10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"read from the right", "10.0.0.1:1", []string{"1.1.1.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"over several headers", "10.0.0.1:1", []string{"1.1.1.1", "198.51.100.1", "10.0.0.2,10.0.0.3"},
			"198.51.100.1"},
		{"a malformed hop", "10.0.0.1:1", []string{"198.51.100.1, nonsense, 10.0.0.2"}, "10.0.0.2"},
		{"all are proxies", "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"with a port", "[fd00::1]:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a unix socket", "@", []string{"198.51.100.1"}, "unknown"},
	}
	for _, test := range tests {
		var got string
		f := &fakes{take: func(_ limits.Class, who string) limits.Decision {
			got = who
			return limits.Decision{Allowed: true}
		}}
		s := newServer(t, f, func(o *config) {
			o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
		})
		r := httptest.NewRequest("POST", "/v1/auth/login", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = test.peer, test.forwarded
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}
