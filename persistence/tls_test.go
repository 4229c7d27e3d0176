package persistence

import (
	"context"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// By each kind of TLS address the service connects with the authority of redis.ca_file, and not
// without it.
func TestRedisByTLS(t *testing.T) {
	t.Parallel()
	f := redistest.NewTLSFiles(t)
	allowed := func(s *redistest.Server) {
		t.Helper()
		words := []any{"ACL", "SETUSER", "service", "on", ">p@ss/%", "~*", "&*", "+@all"}
		if err := s.Client().Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const user = "service:p%40ss%2F%25@"
	port := redistest.FreePort(t)
	single := redistest.New(t, f.Args(port)...)
	allowed(single)

	nodePort := redistest.FreePort(t)
	node := redistest.New(t, append(f.Args(nodePort),
		"--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")...)
	allowed(node)
	if err := node.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}

	sentinelPort := redistest.FreePort(t)
	redistest.NewSentinel(t, "bind 127.0.0.1", "tls-port "+sentinelPort,
		"tls-cert-file "+f.Cert, "tls-key-file "+f.Key, "tls-ca-cert-file "+f.CA,
		"tls-auth-clients no", "tls-replication yes", "sentinel monitor main 127.0.0.1 "+port+" 1",
		"sentinel auth-user main service", "sentinel auth-pass main p@ss/%",
		"user watcher on >s&cret ~* &* +@all", "user default off")

	sentinels := "rediss+sentinel://" + user + "127.0.0.1:" + sentinelPort + "/main"
	for _, c := range []struct{ name, url, without string }{
		{"one server", "rediss://" + user + "127.0.0.1:" + port + "/0", ""},
		{"a cluster", "rediss+cluster://" + user + "127.0.0.1:" + nodePort, ""},
		{"sentinels", sentinels + "?sentinel_username=watcher&sentinel_password=s%26cret", sentinels},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, Options{URL: c.url, CAFile: f.CA, Partitions: 2})
			redistest.Eventually(t, func() bool { return s.Client.Readiness.Check(context.Background()) == nil })
			log := openLog(t, s, eventlog.LogOptions{})
			account := signal.NewAccountID()
			if _, err := log.Append(t.Context(), storetest.Noted(account, "x")); err != nil {
				t.Fatal(err)
			}
			events, err := s.Logs.ReadLog(t.Context(), s.Client.Partition(account), signal.Position{}, 10)
			if len(events) == 0 || err != nil {
				t.Errorf("%d events, %v", len(events), err)
			}
			stranger := openStore(t, Options{URL: c.url, Partitions: 2})
			if err := stranger.Client.SyncClock(t.Context()); err == nil {
				t.Error("a certificate of an unknown authority is accepted")
			}
			plain := openStore(t, Options{URL: strings.Replace(c.url, "rediss", "redis", 1), Partitions: 2})
			if err := plain.Client.SyncClock(t.Context()); err == nil {
				t.Error("it answers without TLS")
			}
			if c.without != "" {
				anonymous := openStore(t, Options{URL: c.without, CAFile: f.CA, Partitions: 2})
				if err := anonymous.Client.SyncClock(t.Context()); err == nil {
					t.Error("sentinels answer without their password")
				}
			}
		})
	}
}
