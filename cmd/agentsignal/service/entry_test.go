package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestANodeWaitsForKilledOnesOnly: it enters when the announcement of a killed one expires, and is
// refused as soon as a live one renews its own.
func TestANodeWaitsForKilledOnesOnly(t *testing.T) {
	const lease, renewal = 5 * time.Second, 300 * time.Millisecond
	conflict := func(node string, until time.Duration) error {
		return &cluster.Refusal{Node: node, Until: until.Milliseconds(),
			Err: &signal.Error{Kind: signal.KindConflict, Message: "refused by " + node}}
	}
	for name, c := range map[string]struct {
		announce func(now time.Duration) error
		entered  bool
		within   time.Duration
		why      string
	}{
		"no other node": {func(time.Duration) error { return nil }, true, 0, ""},
		"a killed node": {func(now time.Duration) error {
			if now < lease {
				return conflict("a", lease)
			}
			return nil
		}, true, lease + enterEvery, ""},
		"a live node": {func(now time.Duration) error {
			return conflict("a", now.Truncate(renewal)+lease)
		}, false, renewal + enterEvery, "refused by a"},
		"a live node behind a killed one": {func(now time.Duration) error {
			if now < time.Second {
				return conflict("a", time.Second)
			}
			return conflict("b", now.Truncate(renewal)+lease)
		}, false, time.Second + renewal + 2*enterEvery, "refused by b"},
		"two killed nodes": {func(now time.Duration) error {
			switch {
			case now < time.Second:
				return conflict("a", time.Second)
			case now < 2*time.Second:
				return conflict("b", 2*time.Second)
			}
			return nil
		}, true, 2*time.Second + enterEvery, ""},
		"Redis is not reached for a while": {func(now time.Duration) error {
			if now < 10*time.Second {
				return signal.Unavailable(errors.New("down"))
			}
			return nil
		}, true, 10*time.Second + installEvery, ""},
		"another conflict": {func(time.Duration) error {
			return &signal.Error{Kind: signal.KindConflict, Message: "unfit server"}
		}, false, 0, "unfit server"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				entered, err := awaitEntry(t.Context(), slog.New(slog.DiscardHandler),
					func(context.Context) error { return c.announce(time.Since(began)) })
				why := ""
				if err != nil {
					why = err.Error()
				}
				if took := time.Since(began); entered != c.entered || why != c.why || took > c.within {
					t.Errorf("entered %v after %s with %v; want %v within %s, %q", entered, took, err, c.entered, c.within, c.why)
				}
			})
		})
	}
}

func TestWaitingToEnterEndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		entered, err := awaitEntry(ctx, slog.New(slog.DiscardHandler), func(context.Context) error {
			return &cluster.Refusal{Node: "a", Err: &signal.Error{Kind: signal.KindConflict}}
		})
		if entered || err != nil {
			t.Errorf("entered %v, %v", entered, err)
		}
	})
}

// TestCheckValuesHideKeys and differ by setting, name and key.
func TestCheckValuesHideKeys(t *testing.T) {
	t.Parallel()
	key := credential.NamedKey{Name: "main", Value: [32]byte{1, 2, 3}}
	renamed, other := key, key
	renamed.Name, other.Value[31] = "second", 1
	seen := map[string]bool{}
	for _, trait := range []cluster.Trait{
		keyTrait("auth.jwt_keys", []credential.NamedKey{key, renamed, other}),
		keyTrait("security.encryption_keys", []credential.NamedKey{key}),
	} {
		for _, v := range trait.Values {
			if seen[v] || len(v) != 32 || strings.Contains(v, "010203") {
				t.Errorf("check value %q of %s", v, trait.Setting)
			}
			seen[v] = true
		}
	}
	if len(seen) != 4 || seen[keyTrait("auth.jwt_keys", []credential.NamedKey{key}).Values[0]] == false {
		t.Errorf("check values %v", seen)
	}
}

// clusterConfig returns the settings of a node that shares the Redis at url with others.
func clusterConfig(tb testing.TB, url string) configs.Config {
	tb.Helper()
	c := testConfig(tb, url)
	c.Cluster = true
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(sharedKeys), configs.Secret(sharedKeys)
	c.Security.RecordKeys = configs.Secret(sharedRecordKey(tb))
	return c
}

// anotherKey is a key that sharedKeys does not have.
var anotherKey = strings.Replace(sharedKeys, "MDEyMzQ1", "NTQzMjEw", 1)

func TestNodesThatDisagreeAreRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	config := func() configs.Config {
		c := clusterConfig(t, redis.URL())
		c.Market.Source = "stream,simulated"
		return c
	}
	first := start(t, config())
	otherRecordKey, err := makeOtherRecordKey()
	must(t, err)
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
			s := begin(t, c)
			why := s.refused(t)
			if !strings.Contains(why, setting) {
				t.Errorf("refused with: %s", why)
			}
			if s.log.Line("agentsignal serves") != "" {
				t.Error("it is said to serve")
			}
		})
	}
	rotating := config()
	rotating.Auth.JWTKeys = configs.Secret(strings.Replace(anotherKey, "main", "next", 1) + "," + sharedKeys)
	start(t, rotating)
	if n := first.process.joined.Load().Owned(); n == 0 {
		t.Error("the first node owns nothing")
	}
	// A later build has changed the records, while nodes of this one still run.
	k := first.process.store.Client
	must(t, redis.Client().HSet(t.Context(), k.InstallationKey(), redisclient.InstalledFormats, 2).Err())
	if why := begin(t, config()).refused(t); !strings.Contains(why, "version 2 of the formats") {
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
		c.Webhooks.AllowedNetworks = []string{loopback}
		return c
	}
	next := strings.Replace(anotherKey, "main", "next", 1)
	start(t, with(next)).stop(t)
	first := start(t, with(sharedKeys))
	owner, _ := first.account(t)
	owner.hook(newHookEndpoint(t, nil).url, "signal.created")
	first.stop(t)
	refused := func(keys string) {
		t.Helper()
		if why := begin(t, with(keys)).refused(t); !strings.Contains(why, settingEncryptionKeys+": secrets of webhooks") {
			t.Errorf("refused with: %s", why)
		}
	}
	refused(next)
	start(t, with(next+","+sharedKeys)).stop(t)
	start(t, with(next)).stop(t)
	refused(sharedKeys)
	must(t, redis.Client().HDel(t.Context(), "{node}:installation", "encryption_keys").Err()) // as of an earlier build
	start(t, with(sharedKeys))
}

func TestACopiedDataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := clusterConfig(t, redis.URL())
	first := start(t, c)
	copied := clusterConfig(t, redis.URL())
	must(t, os.CopyFS(copied.DataDir, os.DirFS(c.DataDir)))
	why := begin(t, copied).refused(t)
	if !strings.Contains(why, "another process is live as node "+first.process.node) ||
		!strings.Contains(why, `remove the file "node" from the copy`) {
		t.Errorf("refused with: %s", why)
	}
	first.awaitReady(t)
	// When its node has left, the copy takes its place.
	first.stop(t)
	start(t, copied)
}

// TestANodeEndsWhenAnotherProcessHasItsID, which may happen while it is halted for long.
func TestANodeEndsWhenAnotherProcessHasItsID(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	first := begin(t, clusterConfig(t, redis.URL()))
	first.awaitReady(t)
	installed, err := redisclient.Existing(t.Context(), persistence.Options{URL: redis.URL()})
	must(t, err)
	impostor, err := persistence.Open(installed)
	must(t, err)
	t.Cleanup(func() { impostor.Client.Close() })
	eventually(t, "the other process has the id", func() bool {
		must(t, impostor.Logs.ForgetNodes(t.Context()))
		_, err := impostor.Logs.AnnounceNode(t.Context(), first.process.node, time.Hour, false)
		return err == nil
	})
	<-first.ended
	if first.err == nil || !strings.Contains(first.err.Error(), "another process is live as node") {
		t.Errorf("it ended with %v", first.err)
	}
	// It has not withdrawn the other one.
	if _, err := impostor.Logs.AnnounceNode(t.Context(), first.process.node, time.Hour, false); err != nil {
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
			s := begin(t, testConfig(t, redis.URL()))
			s.awaitReady(t)
			_, err := rdb.TxPipelined(t.Context(), func(tx goredis.Pipeliner) error {
				tx.FlushAll(t.Context())
				return tx.HSet(t.Context(), "{node}:installation", "partitions", c.record, "id", "another").Err()
			})
			must(t, err)
			select {
			case <-s.ended:
			case <-time.After(patience):
				t.Fatal("it goes on")
			}
			if s.err == nil || !strings.Contains(s.err.Error(), c.why) {
				t.Errorf("it ended with: %v", s.err)
			}
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
		return append(childSettings(t, redis.URL(), "DATA_DIR="+dir), more...)
	}
	first := launchReady(t, settings(dir, "LEASE=24h")...)
	first.kill()
	again := launch(t, settings(dir, "LEASE=2s")...)
	again.awaitReady(t) // if it waited for the announcement of its former process, that would take a day
	again.kill()
	launchReady(t, settings(t.TempDir(), "LEASE=3s")...)
}

// TestAServiceWithItsOwnRedisWaitsForNoNode: nothing else can have used its Redis.
func TestAServiceWithItsOwnRedisWaitsForNoNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := append(childSettings(t, ""), "DATA_DIR="+dir, "LEASE=24h")
	launchReady(t, settings...).kill()
	must(t, os.Remove(filepath.Join(dir, "node")))
	launchReady(t, settings...)
}
