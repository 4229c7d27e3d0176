package http

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress returns the address of the client: that of the peer or, behind trusted
// proxies, the rightmost one in X-Forwarded-For that is not trusted.
func clientAddress(r *http.Request, trusted []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown" // a unix socket
	}
	client := peer.Addr().Unmap().WithZone("")
	if len(trusted) == 0 || !isTrusted(client, trusted) {
		return client.String()
	}
	hops := r.Header["X-Forwarded-For"]
	for i := len(hops) - 1; i >= 0; i-- {
		for rest := hops[i]; rest != ""; {
			var hop string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, hop = rest[:at], rest[at+1:]
			} else {
				rest, hop = "", rest
			}
			addr, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return client.String() // nor can the hops before it be trusted
			}
			if client = addr; !isTrusted(client, trusted) {
				return client.String()
			}
		}
	}
	return client.String()
}

// parseHop reads an address with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		with, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}
