package main

import (
	"fmt"
	"net/netip"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
)

// signingKeys returns the configured keys of access tokens, or those of the data
// directory, which are made if there are none.
func signingKeys(c configs.Config) (credentials.KeyRing, error) {
	if c.Auth.JWTKeys == "" {
		return credentials.LoadOrMakeKeys(c.DataDir)
	}
	return credentials.ParseKeys(string(c.Auth.JWTKeys))
}

// quotasOf returns the quotas as they are configured.
func quotasOf(c configs.RateLimit) (limits.Quotas, error) {
	quotas := limits.Quotas{}
	for class, text := range map[limits.Class]string{limits.Reads: c.Reads, limits.Runs: c.Runs, limits.Writes: c.Writes,
		limits.Streams: c.Streams, limits.Logins: c.Logins, limits.Registrations: c.Registrations, limits.Sessions: c.Sessions,
		limits.Failures: c.Failures} {
		q, err := limits.ParseQuota(text)
		if err != nil {
			return nil, fmt.Errorf("rate_limit.%s: %w", class, err)
		}
		quotas[class] = q
	}
	return quotas, nil
}

func parsePrefixes(networks []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, fmt.Errorf("http.trusted_proxies: %w", err)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

func agentIDs(names []string) []signal.AgentID {
	var ids []signal.AgentID
	for _, n := range names {
		ids = append(ids, signal.AgentID(n))
	}
	return ids
}

func agentStatuses(statuses map[string]string) map[signal.AgentID]signal.AgentStatus {
	m := map[signal.AgentID]signal.AgentStatus{}
	for id, s := range statuses {
		m[signal.AgentID(id)] = signal.AgentStatus(s)
	}
	return m
}
