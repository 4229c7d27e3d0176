package redisclient

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, info, want string }{
		{"Redis 7", "# Server\r\nredis_version:7.0.15\r\nexecutable:/usr/bin/redis-server\r\n# Memory\r\nmaxmemory:0\r\n" +
			"maxmemory_policy:noeviction\r\n", ""},
		{"Valkey", "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", ""},
		{"a store that tells nothing", "", ""},
		{"an unknown version", "redis_version:unstable\r\n", ""},
		{"a policy without a limit", "redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", ""},
		{"Redis 6", "redis_version:6.2.14\r\n", "this is Redis 6.2.14"},
		{"Dragonfly", "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.27.1\r\n", "Dragonfly df-v1.27.1"},
		{"KeyDB", "redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n", "KeyDB"},
		{"one that evicts", "redis_version:7.2.4\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-lru\r\n",
			"maxmemory-policy volatile-lru"},
	} {
		s := Server{Info: parseInfo(test.info)}
		got := cmp.Or(s.Unfit(), s.Evicts())
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add("# Server\r\nredis_version:7.0.15\r\n\r\nmaxmemory:0")
	f.Add(":::\n\x00:1")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range parseInfo(text) {
			if strings.ContainsAny(name, ":\n") {
				t.Errorf("field %q", name)
			}
		}
		s := Server{Info: parseInfo(text)}
		_, _, _, _ = s.Program(), s.Unfit(), s.Evicts(), s.risks(0)
	})
}

// The server of the tests is fit, and one that evicts is not, until its setting is corrected.
func TestCheckServer(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	c := openClient(t, Options{URL: server.URL()})
	ctx, rdb := t.Context(), server.Client()
	if err := c.Servers.Check(ctx); err != nil {
		t.Fatal(err)
	}
	rdb.ConfigSet(ctx, "maxmemory", "100mb")
	if err := c.Servers.Check(ctx); err != nil {
		t.Errorf("with a limit and no eviction: %v", err)
	}
	rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru")
	err := c.Servers.Check(ctx)
	if signal.KindOf(err) != signal.KindConflict || !strings.Contains(err.Error(), "set noeviction") {
		t.Errorf("with eviction: %v", err)
	}
	server.Kill()
	if err := c.Servers.Check(ctx); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without a server: %v", err)
	}
}

// serveInfo is a server that knows no command but INFO. It returns its URL.
func serveInfo(t *testing.T, info string) string {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerInfo(conn, info)
		}
	}()
	return "unix://" + l.Addr().String()
}

// answerInfo answers the commands of a connection.
func answerInfo(conn net.Conn, info string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	next := func() string { lines.Scan(); return lines.Text() }
	for {
		words, err := strconv.Atoi(strings.TrimPrefix(next(), "*"))
		if err != nil || words < 1 {
			return
		}
		command := ""
		for i := range words {
			next() // the length
			if word := next(); i == 0 {
				command = strings.ToLower(word)
			}
		}
		answer := "-ERR unknown command\r\n"
		if command == "info" {
			answer = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// A process does not start on a server that is unfit, whether or not there is an installation. These
// answers are as those programs' sources have them; they were not run.
func TestInstalledRefusesUnfitServers(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]string{
		"this is Dragonfly df-v1.27.1": "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.27.1\r\n",
		"this is KeyDB":                "# Server\r\nredis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n",
	} {
		o := Options{URL: serveInfo(t, info), Timeout: time.Minute}
		for name, check := range map[string]func() error{
			"Installed":   func() error { _, err := Installed(t.Context(), o); return err },
			"Existing":    func() error { _, err := Existing(t.Context(), o); return err },
			"CheckServer": func() error { return openClient(t, o).Servers.Check(t.Context()) },
		} {
			if err := check(); signal.KindOf(err) != signal.KindConflict || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestRisksOfServers(t *testing.T) {
	t.Parallel()
	const replicas, file, policy = "redis.wait_replicas is 0", "no append-only file", "maxmemory-policy volatile-ttl"
	for _, test := range []struct {
		name, info string
		wait       int
		want       []string
	}{
		{"a store that tells nothing", "", 0, nil},
		{"one server with a file", "aof_enabled:1\r\nconnected_slaves:0\r\n", 0, nil},
		{"no file", "aof_enabled:0\r\nconnected_slaves:0\r\n", 0, []string{file}},
		{"replicas for which nothing waits", "aof_enabled:1\r\nconnected_slaves:2\r\n", 0, []string{replicas}},
		{"replicas for which changes wait", "aof_enabled:1\r\nconnected_slaves:2\r\n", 1, nil},
		{"eviction that began after the start", "aof_enabled:1\r\nmaxmemory:1\r\nmaxmemory_policy:volatile-ttl\r\n", 0,
			[]string{policy}},
		{"memory that is nearly full", "aof_enabled:1\r\nused_memory:90\r\nmaxmemory:100\r\n", 0,
			[]string{"more than 90 % of its maxmemory"}},
		{"memory that is not", "aof_enabled:1\r\nused_memory:89\r\nmaxmemory:100\r\n", 0, nil},
		{"memory without a limit", "aof_enabled:1\r\nused_memory:90\r\nmaxmemory:0\r\n", 0, nil},
		{"memory that is full, which is said otherwise", "aof_enabled:1\r\nused_memory:100\r\nmaxmemory:100\r\n", 0, nil},
		{"neither", "aof_enabled:0\r\nconnected_slaves:1\r\n", 0, []string{replicas, file}},
	} {
		s := Server{Info: parseInfo(test.info)}
		got := s.risks(test.wait)
		ok := len(got) == len(test.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i], test.want[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// The risks of a real server come and go with its state. One that refuses INFO has none.
func TestRisks(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	c, rdb := openClient(t, Options{URL: master.URL()}), master.Client()
	want := func(state string, texts ...string) {
		t.Helper()
		var got []string
		redistest.Eventually(t, func() bool {
			var err error
			got, err = c.Servers.Risks(t.Context())
			return err == nil && len(got) == len(texts)
		})
		for i := range texts {
			if !strings.Contains(got[i], texts[i]) {
				t.Errorf("%s: %q", state, got)
			}
		}
	}
	want("without a file", "appendonly yes")
	rdb.ConfigSet(t.Context(), "appendonly", "yes")
	want("with one")
	replica.Follow(master)
	want("with a replica", "redis.wait_replicas")
	master.Deny("-info")
	want("without the right to ask")
	master.Kill()
	if _, err := c.Servers.Risks(t.Context()); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without a server: %v", err)
	}
}

// Inspect reports on each master, and what its user may not read is left out.
func TestInspect(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	admin := openClient(t, Options{URL: strings.Replace(cluster.URL(), redistest.User+":any@", "", 1)})
	servers, err := admin.Servers.Inspect(t.Context())
	if err != nil || len(servers) != 3 {
		t.Fatalf("%d servers, %v", len(servers), err)
	}
	for _, s := range servers {
		if s.Addr == "" || s.Info["aof_enabled"] != "1" || s.Fsync != "always" || s.Program() == "" || s.RoundTrip <= 0 ||
			s.Ahead.Abs() > time.Minute {
			t.Errorf("got %+v", s)
		}
	}
	// A cluster may fail over to replicas that it has not yet.
	risks, err := admin.Servers.Risks(t.Context())
	if err != nil || len(risks) != 1 || risks[0] != unconfirmedRisk {
		t.Errorf("risks of a cluster: %q, %v", risks, err)
	}
	// One master that evicts is enough to be refused.
	last := cluster.Servers()[2].Client()
	last.ConfigSet(t.Context(), "maxmemory", "100mb")
	last.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru")
	if err := admin.Servers.Check(t.Context()); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("with one master that evicts: %v", err)
	}

	server := redistest.New(t)
	c := openClient(t, Options{URL: server.URL()})
	server.Deny("-info", "-config")
	servers, err = c.Servers.Inspect(t.Context())
	if err != nil || len(servers) != 1 || servers[0].Addr != "" || servers[0].Info != nil || servers[0].Fsync != "" {
		t.Errorf("without rights: %+v, %v", servers, err)
	}
	server.Deny("-time")
	if _, err := c.Servers.Inspect(t.Context()); err == nil {
		t.Error("without the right to read the time")
	}
	server.Kill()
	if _, err := c.Servers.Inspect(t.Context()); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without a server: %v", err)
	}
}
