package persistence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Each kind of address by TLS: the service works with the authority of redis.ca_file, and
// does not connect without it.
func TestRedisByTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	allowed := func(s *redistest.Server) {
		t.Helper()
		if err := s.Client().Do(t.Context(), "ACL", "SETUSER", "service", "on", ">p@ss/%", "~*", "&*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	const user = "service:p%40ss%2F%25@"
	port := redistest.FreePort(t)
	single := redistest.New(t, f.args(port)...)
	allowed(single)

	nodePort := redistest.FreePort(t)
	node := redistest.New(t, append(f.args(nodePort), "--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")...)
	allowed(node)
	if err := node.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}

	sentinelPort := redistest.FreePort(t)
	redistest.NewSentinel(t, "bind 127.0.0.1", "tls-port "+sentinelPort, "tls-cert-file "+f.cert, "tls-key-file "+f.key, "tls-ca-cert-file "+f.ca,
		"tls-auth-clients no", "tls-replication yes", "sentinel monitor main 127.0.0.1 "+port+" 1", "sentinel auth-user main service", "sentinel auth-pass main p@ss/%",
		"user watcher on >s&cret ~* &* +@all", "user default off")

	sentinels := "rediss+sentinel://" + user + "127.0.0.1:" + sentinelPort + "/main"
	for _, c := range []struct{ name, url, without string }{
		{"one server", "rediss://" + user + "127.0.0.1:" + port + "/0", ""},
		{"a cluster", "rediss+cluster://" + user + "127.0.0.1:" + nodePort, ""},
		{"sentinels", sentinels + "?sentinel_username=watcher&sentinel_password=s%26cret", sentinels},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, Options{URL: c.url, CAFile: f.ca, Partitions: 2})
			eventually(t, func() bool { return s.Ready(context.Background()) == nil })
			log := openLog(t, s, LogOptions{})
			account := signal.NewAccountID()
			if _, err := log.Append(t.Context(), noted(account, "x")); err != nil {
				t.Fatal(err)
			}
			if events, err := s.ReadLog(t.Context(), s.Partition(account), signal.Position{}, 10); len(events) == 0 || err != nil {
				t.Errorf("%d events, %v", len(events), err)
			}
			stranger := openStore(t, Options{URL: c.url, Partitions: 2})
			if err := stranger.SyncClock(t.Context()); err == nil {
				t.Error("a certificate of an unknown authority is taken")
			}
			plain := openStore(t, Options{URL: strings.Replace(c.url, "rediss", "redis", 1), Partitions: 2})
			if err := plain.SyncClock(t.Context()); err == nil {
				t.Error("it answers without TLS")
			}
			if c.without != "" {
				nobody := openStore(t, Options{URL: c.without, CAFile: f.ca, Partitions: 2})
				if err := nobody.SyncClock(t.Context()); err == nil {
					t.Error("sentinels answer without their password")
				}
			}
		})
	}
}

func TestAddressesThatAreNotValid(t *testing.T) {
	t.Parallel()
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noPEM, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newTLSFiles(t)
	for _, address := range []string{"redis://localhost", "redis://:password@localhost:6379/3", "rediss://user:pass%40@localhost:6379", "unix://user:pass@/run/redis.sock",
		"redis+cluster://a:1,b:2", "rediss+cluster://user:pass@a:1,b:2", "rediss+sentinel://u:p@a:1,b:2/main?sentinel_username=x&sentinel_password=y"} {
		caFile := ""
		if strings.HasPrefix(address, "rediss") {
			caFile = f.ca
		}
		if err := CheckURL(address, caFile); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, c := range []struct{ address, caFile, want string }{
		{"localhost:6379", "", "redis.url: use redis://"},
		{"http://localhost:6379", "", "redis.url: use redis://"},
		{"sekrit-word://localhost:6379", "", "redis.url: use redis://"},
		{"redis://user:sekrit%zz-word@localhost:6379", "", "redis.url is not valid"},
		{"redis://user:sekrit word@localhost:6379", "", "redis.url is not valid"},
		{"redis://user:12/sekrit-word@localhost:6379", "", "redis.url is not valid"},
		{"redis://user:sekrit/word@localhost:6379", "", "redis.url is not valid"},
		{"redis://localhost:6379/0?password=sekrit-word", "", "redis.url is not valid"},
		{"redis+cluster://user:sekrit/word@a:1", "", "host:port"},
		{"redis+cluster://user:sekrit%zz-word@a:1", "", "redis.url is not valid"},
		{"redis+cluster://user:password@sekrit-word", "", "host:port"},
		{"redis+cluster://a:1?password=sekrit-word", "", "host:port"},
		{"redis+cluster://a:1/?password=sekrit-word", "", "options"},
		{"redis+sentinel://a:1/main?sentinel_pasword=sekrit-word", "", "options"},
		{"redis+sentinel://a:1/main?sentinel_password=sekrit%zz", "", "redis.url is not valid"},
		{"redis+sentinel://user:sekrit-word@a:1", "", "name of the master"},
		{"redis://localhost", f.ca, "redis.ca_file is for TLS"},
		{"rediss://localhost", noPEM, "no certificate in PEM"},
		{"rediss://localhost", "/nonexistent", "redis.ca_file"},
	} {
		err := CheckURL(c.address, c.caFile)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sekrit") || strings.Contains(err.Error(), "-word") {
			t.Errorf("%s: got %v, want %q and nothing of the password", c.address, err, c.want)
		}
	}
}

// FuzzCheckURL: no error has a part of the address.
func FuzzCheckURL(f *testing.F) {
	f.Add("redis", "user:", "@localhost:6379/0")
	f.Add("rediss", ":12/", "@localhost:6379")
	f.Add("redis+cluster", "", "@a:1,b:2")
	f.Add("redis+sentinel", "u%zz:", "@a:1/main?sentinel_password=x")
	f.Add("unix", "", "@/run/redis.sock?db=1")
	f.Fuzz(func(t *testing.T, scheme, before, behind string) {
		const marker = "Xq7marker"
		if err := CheckURL(fmt.Sprintf("%s://%s%s%s", scheme, before, marker, behind), ""); err != nil && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(marker)) {
			t.Errorf("the error quotes the address: %v", err)
		}
	})
}
