package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// clusterConfig returns the settings of a node that shares the Redis at url with others.
func clusterConfig(tb testing.TB, url string) configs.Config {
	tb.Helper()
	c := e2e.TestConfig(tb, url)
	c.Cluster = true
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(e2e.SharedKeys), configs.Secret(e2e.SharedKeys)
	c.Security.RecordKeys = configs.Secret(e2e.SharedRecordKey(tb))
	return c
}

// anotherKey is a key that sharedKeys does not have.
var anotherKey = strings.Replace(e2e.SharedKeys, "MDEyMzQ1", "NTQzMjEw", 1)

func TestNodesThatDisagreeAreRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	config := func() configs.Config {
		c := clusterConfig(t, redis.URL())
		c.Market.Source = "stream,simulated"
		return c
	}
	first := e2e.Start(t, config())
	otherRecordKey, err := makeOtherRecordKey()
	e2e.Must(t, err)
	for setting, change := range map[string]func(*configs.Config){
		"auth.jwt_keys":            func(c *configs.Config) { c.Auth.JWTKeys = configs.Secret(anotherKey) },
		"security.encryption_keys": func(c *configs.Config) { c.Security.EncryptionKeys = configs.Secret(anotherKey) },
		"security.record_keys":     func(c *configs.Config) { c.Security.RecordKeys = configs.Secret(otherRecordKey) },
		"partitions":               func(c *configs.Config) { c.Partitions = 4 },
		"market.source":            func(c *configs.Config) { c.Market.Source = "simulated,stream" },
		"market.speed":             func(c *configs.Config) { c.Market.Speed = 7 },
		"lease":                    func(c *configs.Config) { c.Lease *= 2 },
		"signals.retention":        func(c *configs.Config) { c.Signals.Retention *= 2 },
		"redis.wait_replicas":      func(c *configs.Config) { c.Redis.WaitReplicas = 1 },
		"redis.without_replicas": func(c *configs.Config) {
			c.Redis.WithoutReplicas = configs.AcceptWithoutReplicas
		},
		"cluster: true": func(c *configs.Config) { c.Cluster = false },
	} {
		t.Run(setting, func(t *testing.T) {
			c := config()
			change(&c)
			s := e2e.Begin(t, c)
			why := s.Refused(t)
			if !strings.Contains(why, setting) {
				t.Errorf("refused with: %s", why)
			}
			if s.Log.Line("agentsignal serves") != "" {
				t.Error("it is said to serve")
			}
		})
	}
	rotating := config()
	rotating.Auth.JWTKeys = configs.Secret(strings.Replace(anotherKey, "main", "next", 1) + "," + e2e.SharedKeys)
	e2e.Start(t, rotating)
	if n := first.Partitions().Owned(); n == 0 {
		t.Error("the first node owns nothing")
	}
	// A later build has changed the records, while nodes of this one still run.
	k := first.Store().Client
	e2e.Must(t, redis.Client().HSet(t.Context(), k.InstallationKey(), "formats", 2).Err())
	if why := e2e.Begin(t, config()).Refused(t); !strings.Contains(why, "version 2 of the formats") {
		t.Errorf("refused with: %s", why)
	}
}

// With no node live, a node with other encryption keys may start only while no secret is stored. One key in
// common suffices.
func TestStoredSecretsNeedAKeyOfTheLastNode(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	with := func(keys string) configs.Config {
		c := clusterConfig(t, redis.URL())
		c.Security.EncryptionKeys = configs.Secret(keys)
		c.Webhooks.AllowedNetworks = []string{e2e.Loopback}
		return c
	}
	next := strings.Replace(anotherKey, "main", "next", 1)
	e2e.Start(t, with(next)).Stop(t)
	first := e2e.Start(t, with(e2e.SharedKeys))
	owner, _ := first.Account(t)
	owner.Hook(e2e.NewHookEndpoint(t, nil).URL, "signal.created")
	first.Stop(t)
	refused := func(keys string) {
		t.Helper()
		if why := e2e.Begin(t, with(keys)).Refused(t); !strings.Contains(why, "security.encryption_keys: secrets of webhooks") {
			t.Errorf("refused with: %s", why)
		}
	}
	refused(next)
	e2e.Start(t, with(next+","+e2e.SharedKeys)).Stop(t)
	e2e.Start(t, with(next)).Stop(t)
	refused(e2e.SharedKeys)
	e2e.Must(t, redis.Client().HDel(t.Context(), "{node}:installation", "encryption_keys").Err()) // as of an earlier build
	e2e.Start(t, with(e2e.SharedKeys))
}

func TestACopiedDataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := clusterConfig(t, redis.URL())
	first := e2e.Start(t, c)
	copied := clusterConfig(t, redis.URL())
	e2e.Must(t, os.CopyFS(copied.DataDir, os.DirFS(c.DataDir)))
	why := e2e.Begin(t, copied).Refused(t)
	if !strings.Contains(why, "another process is live as node "+first.NodeID()) ||
		!strings.Contains(why, `remove the file "node" from the copy`) {
		t.Errorf("refused with: %s", why)
	}
	first.AwaitReady(t)
	// When its node has left, the copy takes its place.
	first.Stop(t)
	e2e.Start(t, copied)
}

// TestANodeEndsWhenAnotherProcessHasItsID, which may happen while it is halted for long.
func TestANodeEndsWhenAnotherProcessHasItsID(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	first := e2e.Begin(t, clusterConfig(t, redis.URL()))
	first.AwaitReady(t)
	installed, err := redisclient.Existing(t.Context(), persistence.Options{URL: redis.URL()})
	e2e.Must(t, err)
	impostor, err := persistence.Open(installed)
	e2e.Must(t, err)
	t.Cleanup(func() { impostor.Client.Close() })
	e2e.Eventually(t, "the other process has the id", func() bool {
		e2e.Must(t, impostor.Logs.Nodes.ForgetNodes(t.Context()))
		_, err := impostor.Logs.Nodes.AnnounceNode(t.Context(), first.NodeID(), time.Hour, false)
		return err == nil
	})
	<-first.Ended
	if first.Err == nil || !strings.Contains(first.Err.Error(), "another process is live as node") {
		t.Errorf("it ended with %v", first.Err)
	}
	// It has not withdrawn the other one.
	if _, err := impostor.Logs.Nodes.AnnounceNode(t.Context(), first.NodeID(), time.Hour, false); err != nil {
		t.Error(err)
	}
	if n := redis.Client().ZCard(t.Context(), "{node}:live").Val(); n != 1 {
		t.Errorf("%d nodes are live, want the other process", n)
	}
}

// TestANodeEndsOnAnotherInstallation: its Redis was emptied and set up by another one, or its address leads
// to another Redis by now.
func TestANodeEndsOnAnotherInstallation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ record, why string }{
		"with other partitions": {"4 even", "this Redis was set up with partitions: 4, and the setting says 16:"},
		"of the same form":      {"16 even", "this Redis has another installation than when this process started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.New(t)
			rdb := redis.Client()
			s := e2e.Begin(t, e2e.TestConfig(t, redis.URL()))
			s.AwaitReady(t)
			_, err := rdb.TxPipelined(t.Context(), func(tx goredis.Pipeliner) error {
				tx.FlushAll(t.Context())
				return tx.HSet(t.Context(), "{node}:installation", "partitions", c.record, "id", "another").Err()
			})
			e2e.Must(t, err)
			select {
			case <-s.Ended:
			case <-time.After(e2e.WaitLimit):
				t.Fatal("it goes on")
			}
			if s.Err == nil || !strings.Contains(s.Err.Error(), c.why) {
				t.Errorf("it ended with: %v", s.Err)
			}
			s.Log.Forget("no checkpoint is signed") // the record is lost, if the signer was faster
			if n := rdb.Exists(t.Context(), "{node}:live").Val(); n != 0 {
				t.Error("it is announced in the other installation")
			}
		})
	}
}

// TestAKilledNodeIsBackAtOnce with its data directory, and with another one when its announcement
// has expired.
func TestAKilledNodeIsBackAtOnce(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	dir := t.TempDir()
	settings := func(dir string, more ...string) []string {
		return append(e2e.ChildSettings(t, redis.URL(), "DATA_DIR="+dir), more...)
	}
	first := e2e.LaunchReady(t, settings(dir, "LEASE=24h")...)
	first.Kill()
	again := e2e.Launch(t, settings(dir, "LEASE=2s")...)
	again.AwaitReady(t) // if it waited for the announcement of its former process, that would take a day
	again.Kill()
	e2e.LaunchReady(t, settings(t.TempDir(), "LEASE=3s")...)
}

// TestAServiceWithItsOwnRedisWaitsForNoNode: nothing else can have used its Redis.
func TestAServiceWithItsOwnRedisWaitsForNoNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := append(e2e.ChildSettings(t, ""), "DATA_DIR="+dir, "LEASE=24h")
	e2e.LaunchReady(t, settings...).Kill()
	e2e.Must(t, os.Remove(filepath.Join(dir, "node")))
	e2e.LaunchReady(t, settings...)
}
