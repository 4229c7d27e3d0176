package persistence

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// redisFiles has the configurations of Redis for operators.
const redisFiles = "../deploy/redis"

// redisFile returns a file of redisFiles in which each user has the password "secret".
func redisFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(redisFiles, name))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^user \w+ on`).ReplaceAllString(string(text), "$0 >secret")
}

// configured starts a server with a file of redisFiles.
func configured(t *testing.T, name string, args ...string) *redistest.Server {
	t.Helper()
	acl := writeFile(t, redisFile(t, "users.acl"))
	return redistest.NewConfigured(t, writeFile(t, redisFile(t, name)), append([]string{"--aclfile", acl}, args...)...)
}

// writeFile returns a new file with the text. Servers write to their configuration.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// admin returns a client of a configured server.
func admin(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(s.URLFor("admin", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// await waits until ok returns true, also for a failover on a busy machine.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 3 minutes")
		}
	}
}

// With deploy/redis/{redis,sentinel}.conf changes go on after the death of the master, and with
// cluster.conf on a cluster.
func TestConfiguredRedis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	appends := func(url string, replicas int) func() bool {
		store := openStore(t, Options{URL: url, Partitions: 2, WaitReplicas: replicas})
		log := openLog(t, store, eventlog.LogOptions{AppendTimeout: time.Second})
		return func() bool {
			_, err := log.Append(t.Context(), storetest.Noted(storetest.AccountIn(store.Client, 1), "text"))
			return err == nil
		}
	}
	t.Run("sentinel", func(t *testing.T) {
		ports := []string{redistest.FreePort(t), redistest.FreePort(t), redistest.FreePort(t), redistest.FreePort(t)}
		master := configured(t, "redis.conf", "--port", ports[0], "--masteruser", "replica", "--masterauth", "secret")
		for _, port := range ports[1:3] {
			configured(t, "redis.conf", "--port", port, "--masteruser", "replica", "--masterauth", "secret",
				"--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1 "+ports[0])
		}
		lines := strings.NewReplacer("monitor agentsignal redis 6379 2", "monitor agentsignal 127.0.0.1 "+ports[0]+" 1",
			"agentsignal 5000", "agentsignal 500",
			"# sentinel auth-pass agentsignal PASSWORD", "sentinel auth-pass agentsignal secret",
			"# sentinel sentinel-pass PASSWORD", "sentinel sentinel-pass secret").Replace(redisFile(t, "sentinel.conf"))
		// A sentinel asks the master for its replicas at once, and then every 10 s.
		known := admin(t, master)
		wantDurable(t, known)
		await(t, func() bool {
			return strings.Count(known.Info(t.Context(), "replication").Val(), "state=online") == 2
		})
		sentinel := admin(t, redistest.NewConfigured(t, writeFile(t, lines), "--sentinel", "--port", ports[3]))
		await(t, func() bool {
			replicas, err := sentinel.Do(t.Context(), "SENTINEL", "REPLICAS", "agentsignal").Slice()
			return err == nil && len(replicas) == 2
		})
		append := appends("redis+sentinel://agentsignal:secret@127.0.0.1:"+ports[3]+
			"/agentsignal?sentinel_username=agentsignal&sentinel_password=secret", 1)
		await(t, append)
		master.Kill()
		await(t, append)
	})
	t.Run("cluster", func(t *testing.T) {
		port := redistest.FreePort(t)
		node := admin(t, configured(t, "cluster.conf", "--port", port))
		if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
			t.Fatal(err)
		}
		await(t, appends("redis+cluster://agentsignal:secret@127.0.0.1:"+port, 0))
		wantDurable(t, node)
	})
}

// wantDurable checks that a server keeps what it acknowledged.
func wantDurable(t *testing.T, server *redis.Client) {
	t.Helper()
	settings := server.ConfigGet(t.Context(), "*").Val()
	for name, want := range map[string]string{"appendonly": "yes", "maxmemory-policy": "noeviction"} {
		if settings[name] != want {
			t.Errorf("%s is %q, want %q", name, settings[name], want)
		}
	}
}

// ofLibrary are commands that the library sends by itself.
var ofLibrary = []string{"auth", "hello", "select", "asking", "cluster", "command", "multi", "exec", "evalsha", "script"}

// The user of the service has no right that the service does not use.
func TestEveryRightIsUsed(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, pattern := range []string{"*.go", "*/*.go", "*/scripts/*.lua"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasPrefix(f, "redistest/") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	users := redisFile(t, "users.acl")
	user := regexp.MustCompile(`(?m)^user agentsignal .*`).FindString(users)
	rights := regexp.MustCompile(`\+([a-z]+)(\|[a-z]+)?`).FindAllStringSubmatch(user, -1)
	if len(rights) < 50 || strings.Contains(user, "+@") || !strings.Contains(user, "-@all") {
		t.Fatalf("the user has the rights %s", user)
	}
	// A call in a script, a word of a command that is sent as it is, or a method of the library.
	words, methods := make(map[string]bool), make(map[string]bool)
	for _, use := range regexp.MustCompile(`'([a-z]+)'|"([a-z]+)"|\.([a-z]+)\(`).
		FindAllStringSubmatch(strings.ToLower(sources.String()), -1) {
		words[use[1]+use[2]], methods[use[3]] = true, true
	}
	for _, right := range rights {
		command, sub := right[1], strings.TrimPrefix(right[2], "|")
		used := words[command]
		for method := range methods {
			used = used || strings.HasPrefix(method, command+sub)
		}
		if !used && !slices.Contains(ofLibrary, command) {
			t.Errorf("nothing uses %s", right[0])
		}
	}
}
