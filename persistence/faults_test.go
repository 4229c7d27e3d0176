package persistence

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/schedules"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// servicePassword is that of the user of a faultBench.
const servicePassword = "a-secret"

// faultBench is a store with a record of each kind, on a Redis that a test breaks.
type faultBench struct {
	*testing.T
	server    *redistest.Server
	admin     *redis.Conn // a connection that no fault affects
	store     *Store
	log       *eventlog.Log
	hooks     *deliveries.Store
	schedules *schedules.Store
	jobs      *jobs.Store
	market    *market.Store
	account   credential.Account
	webhook   delivery.Webhook
	schedule  signal.Schedule
}

func newFaultBench(t *testing.T, server *redistest.Server) *faultBench {
	b := &faultBench{T: t, server: server}
	b.connectAdmin()
	b.allowService()
	b.open(Options{
		URL: server.URLFor("service", servicePassword), Partitions: 2,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	b.account = storetest.AddAccount(t, b.store.Credentials, "a@example.com")
	var err error
	if b.webhook, err = b.hooks.Settings.Register(t.Context(), storetest.Webhook(b.account.ID), 10, nil); err != nil {
		t.Fatal(err)
	}
	if b.schedule, err = b.schedules.AddSchedule(t.Context(), storetest.Schedule(b.account.ID), 10); err != nil {
		t.Fatal(err)
	}
	return b
}

// open opens the store.
func (b *faultBench) open(o Options) {
	b.Helper()
	b.store = openStore(b.T, o)
	b.log = openLog(b.T, b.store, eventlog.LogOptions{AppendTimeout: time.Second})
	b.hooks, b.schedules = deliveries.New(b.store.Client, b.log), schedules.New(b.store.Client, b.log)
	b.jobs, b.market = jobs.New(b.store.Client, "node", jobs.Options{}), market.New(b.store.Client)
}

func (b *faultBench) connectAdmin() {
	if b.admin != nil {
		b.admin.Close()
	}
	b.admin = b.server.Client().Conn()
	b.Cleanup(func() { b.admin.Close() })
}

// allowService makes the service's user, or gives it all rights.
func (b *faultBench) allowService() {
	b.do("ACL", "SETUSER", "service", "on", "resetpass", ">"+servicePassword, "~*", "&*", "+@all")
}

func (b *faultBench) do(words ...any) {
	b.Helper()
	if err := b.admin.Do(context.Background(), words...).Err(); err != nil {
		b.Fatalf("%v: %v", words, err)
	}
}

// killClients ends all connections but the administrator's.
func (b *faultBench) killClients() { b.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }

// calls are requests of the service to Redis, by name.
type calls map[string]func(context.Context) error

func (b *faultBench) reads() calls {
	p, account := b.store.Client.Partition(b.account.ID), b.account.ID
	accounts, until := b.store.Credentials, time.UnixMilli(2_000_000_000_000)
	return calls{
		"stats":         func(ctx context.Context) error { return errOf(b.store.Gauges.streamStats(ctx)) },
		"webhook":       func(ctx context.Context) error { return errOf(b.hooks.Settings.Webhook(ctx, account, b.webhook.ID)) },
		"webhooks":      func(ctx context.Context) error { return errOf(b.hooks.Settings.Webhooks(ctx, account)) },
		"webhook stats": func(ctx context.Context) error { return errOf(b.hooks.Stats.WebhookStats(ctx)) },
		"due endpoints": func(ctx context.Context) error { return errOf(b.hooks.Queue.DueEndpoints(ctx, p, until, 0, 10)) },
		"due mails":     func(ctx context.Context) error { return errOf2(b.hooks.Mails.DueMails(ctx, p, until, 10)) },
		"schedules":     func(ctx context.Context) error { return errOf(b.schedules.Schedules(ctx, account)) },
		"due schedules": func(ctx context.Context) error { return errOf2(b.schedules.DueSchedules(ctx, p, until, 10)) },
		"waiting jobs":  func(ctx context.Context) error { return errOf(b.jobs.Waiting(ctx)) },
		"account":       func(ctx context.Context) error { return errOf2(accounts.AccountByID(ctx, account)) },
		"accounts":      func(ctx context.Context) error { return errOf2(accounts.Accounts(ctx, 10, 0)) },
		"keys":          func(ctx context.Context) error { return errOf(accounts.Keys(ctx, account)) },
		"market":        func(ctx context.Context) error { return errOf(b.market.State(ctx)) },
		"bars":          func(ctx context.Context) error { return errOf2(b.market.Bars(ctx, "BTC", signal.M5)) },
		"position":      func(ctx context.Context) error { return errOf(b.store.Logs.Positions.OwnerPosition(ctx, p)) },
		"unsettled":     func(ctx context.Context) error { return errOf(accounts.Unsettled(ctx, until, 10)) },
		"clock":         b.store.Client.SyncClock,
		"delivery": func(ctx context.Context) error {
			err := errOf2(b.hooks.History.Delivery(ctx, account, b.webhook.ID, signal.NewDeliveryID()))
			if signal.KindOf(err) == signal.KindNotFound {
				return nil
			}
			return err
		},
		"schedule": func(ctx context.Context) error {
			return errOf(b.schedules.Schedule(ctx, account, b.schedule.ID))
		},
		"overdue runs": func(ctx context.Context) error {
			return errOf(b.store.Signals.OverdueRuns(ctx, p, until, 10))
		},
		"log": func(ctx context.Context) error {
			return errOf(b.store.Logs.ReadLog(ctx, p, signal.Position{}, 10))
		},
		"due deliveries": func(ctx context.Context) error {
			return errOf2(b.hooks.Queue.DueDeliveries(ctx, p, account, b.webhook.ID, until, 10, nil))
		},
	}
}

func (b *faultBench) writes() calls {
	return calls{
		"append": func(ctx context.Context) error {
			return errOf(b.log.Append(ctx, storetest.Noted(b.account.ID, "x")))
		},
		"account": func(ctx context.Context) error {
			a := credential.Account{ID: signal.NewAccountID(), CreatedAt: storetest.Now()}
			a.Email = string(a.ID) + "@example.com"
			return b.store.Credentials.CreateAccount(ctx, a, "hash")
		},
		"job": func(ctx context.Context) error {
			return b.jobs.Enqueue(ctx, storetest.Job(b.account.ID, b.store.Client.Now()), 1000, nil)
		},
		"lease": func(ctx context.Context) error {
			return errOf2(b.store.Logs.Leases.TakeLease(ctx, 0, "node", time.Minute))
		},
		"announce": func(ctx context.Context) error {
			return errOf(b.store.Logs.Nodes.AnnounceNode(ctx, "node", time.Minute, false))
		},
		"ticks": func(ctx context.Context) error {
			return b.market.GiveTicks(ctx, []marketdata.AssetTick{{Asset: "BTC"}})
		},
		"install": b.store.Client.Installation.Install,
	}
}

// check makes all calls. If failing is set, each must fail with KindUnavailable and name the
// fault; otherwise none may fail.
func (b *faultBench) check(all calls, failing bool, reason string, setting bool) {
	b.Helper()
	for name, call := range all {
		err := call(b.Context())
		if !failing {
			if err != nil {
				b.Errorf("%s: %v", name, err)
			}
			continue
		}
		if name != "clock" && signal.KindOf(err) != signal.KindUnavailable {
			b.Errorf("%s: got %v, want KindUnavailable", name, err)
		}
		if got, ofSetting := redisclient.Refusal(err); got != reason || ofSetting != setting {
			b.Errorf("%s: got %q (%t) of %v, want %q", name, got, ofSetting, err, reason)
		}
		e, ok := errors.AsType[*signal.Error](err)
		if ok && (strings.Contains(e.Message, "reach") || strings.Contains(e.Message, reason) == setting) {
			b.Errorf("%s: a client reads %q", name, e.Message)
		}
	}
}

// When Redis refuses, every call fails with an error that names the reason. Nothing panics,
// nothing is removed, and the calls succeed once Redis is repaired.
func TestRefusingRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason   string
		setting, reads bool // a setting is at fault; reads fail, too
		break_, heal   func(b *faultBench)
		except         []string // calls that differ
	}{
		{"password rotated", redisclient.RefusesUser, true, true,
			func(b *faultBench) { b.do("ACL", "SETUSER", "service", "resetpass", ">another"); b.killClients() },
			(*faultBench).allowService, nil},
		{"user deleted", redisclient.RefusesUser, true, true,
			func(b *faultBench) { b.do("ACL", "DELUSER", "service") },
			(*faultBench).allowService, nil},
		{"user without rights", redisclient.LacksRights, true, true,
			func(b *faultBench) { b.do("ACL", "SETUSER", "service", "-@all") },
			(*faultBench).allowService, nil},
		{"user without keys", redisclient.LacksRights, true, true,
			func(b *faultBench) { b.do("ACL", "SETUSER", "service", "resetkeys", "-time") },
			(*faultBench).allowService, nil},
		{"read-only", "redis is read-only", false, false,
			func(b *faultBench) { b.do("REPLICAOF", "127.0.0.1", "1") },
			func(b *faultBench) { b.do("REPLICAOF", "NO", "ONE") }, nil},
		{"without its master", "redis has lost its master", false, true,
			func(b *faultBench) {
				b.do("CONFIG", "SET", "replica-serve-stale-data", "no")
				b.do("REPLICAOF", "127.0.0.1", "1")
			},
			func(b *faultBench) { b.do("REPLICAOF", "NO", "ONE") },
			// TIME is answered, and a write without a read is refused as read-only.
			[]string{"clock", "install", "ticks"}},
		{"full", "redis is full", false, false,
			func(b *faultBench) { b.do("CONFIG", "SET", "maxmemory", "1") },
			func(b *faultBench) { b.do("CONFIG", "SET", "maxmemory", "0") },
			// MULTI is refused even for reads, and a script that has removed something may write.
			[]string{"market", "bars", "announce"}},
		{"disk", "redis cannot write to its disk", false, false, (*faultBench).breakDisk, (*faultBench).healDisk, nil},
		{"without replicas", redisclient.ReplicasMissing, false, false,
			func(b *faultBench) { b.do("CONFIG", "SET", "min-replicas-to-write", "1") },
			func(b *faultBench) { b.do("CONFIG", "SET", "min-replicas-to-write", "0") }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newFaultBench(t, redistest.New(t))
			before := b.dump()
			b.wantReady("")
			c.break_(b)
			if c.reads { // old connections may still be open
				redistest.Eventually(t, func() bool {
					reason, _ := redisclient.Refusal(b.reads()["webhook"](t.Context()))
					return reason == c.reason
				})
			}
			reads, writes := b.reads(), b.writes()
			for _, name := range c.except {
				delete(reads, name)
				delete(writes, name)
			}
			b.check(reads, c.reads, c.reason, c.setting)
			b.check(writes, true, c.reason, c.setting)
			if !slices.Contains(c.except, "install") {
				b.wantReady(c.reason)
			}
			c.heal(b)
			b.wantReady("")
			redistest.Eventually(t, func() bool { return b.writes()["append"](t.Context()) == nil })
			for key, content := range before {
				if strings.HasSuffix(key, ":events") || strings.Contains(key, ":batch:") {
					continue
				}
				if got := b.dump()[key]; got != content {
					t.Errorf("%s has changed: %q, was %q", key, got, content)
				}
			}
			b.check(b.reads(), false, "", false)
			b.check(b.writes(), false, "", false)
		})
	}
}

// wantReady waits until the store is ready, or until it is not for the given reason.
func (b *faultBench) wantReady(reason string) {
	b.Helper()
	redistest.Eventually(b.T, func() bool {
		err := b.store.Client.Readiness.Check(b.Context())
		got, _ := redisclient.Refusal(err)
		return (err == nil) == (reason == "") && got == reason
	})
}

// dump returns the contents of all keys.
func (b *faultBench) dump() map[string]string {
	b.Helper()
	keys, err := b.admin.Keys(context.Background(), "*").Result()
	if err != nil {
		b.Fatal(err)
	}
	all := map[string]string{}
	for _, k := range keys {
		all[k] = b.admin.Dump(context.Background(), k).Val()
	}
	return all
}

// breakDisk makes a snapshot fail: a directory takes the place of its file.
func (b *faultBench) breakDisk() {
	if err := os.MkdirAll(filepath.Join(b.server.Dir(), "dump.rdb", "x"), 0o700); err != nil {
		b.Fatal(err)
	}
	b.do("CONFIG", "SET", "save", "3600 1")
	b.do("BGSAVE")
	redistest.Eventually(b.T, func() bool {
		return strings.Contains(b.admin.Info(context.Background(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

func (b *faultBench) healDisk() { b.do("CONFIG", "SET", "save", "") }

// With a wrong password or an unknown user, every call returns an error.
func TestWrongRedisPassword(t *testing.T) {
	t.Parallel()
	b := newFaultBench(t, redistest.New(t))
	for _, user := range []string{"service", "nobody", ""} {
		b.do("CONFIG", "SET", "requirepass", "something")
		b.open(Options{URL: b.server.URLFor(user, "wrong"), Partitions: 2})
		b.check(b.reads(), true, redisclient.RefusesUser, true)
		b.check(b.writes(), true, redisclient.RefusesUser, true)
	}
	// And no password at all.
	b.open(Options{URL: b.server.URLFor("", ""), Partitions: 2})
	if _, err := b.jobs.Waiting(t.Context()); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without a password: %v", err)
	} else if reason, setting := redisclient.Refusal(err); reason != redisclient.RefusesUser || !setting {
		t.Errorf("without a password: %q of %v", reason, err)
	}
}

// While Redis is down calls fail as unavailable, while it loads its data their errors name
// that, and they succeed once it is back.
func TestRestartingRedis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	b := newFaultBench(t, redistest.NewDurable(t, "--enable-debug-command", "local",
		"--loading-process-events-interval-bytes", "1024"))
	b.server.Kill()
	for _, all := range []calls{b.reads(), b.writes()} {
		for name, call := range all {
			if err := call(t.Context()); name != "clock" && signal.KindOf(err) != signal.KindUnavailable {
				t.Errorf("%s while Redis is down: %v", name, err)
			} else if reason, _ := redisclient.Refusal(err); reason != "" {
				t.Errorf("%s while Redis is down: %q", name, reason)
			}
		}
	}
	b.server.Restart()
	b.connectAdmin()
	b.allowService()
	redistest.Eventually(t, func() bool { return b.writes()["append"](t.Context()) == nil })
	b.check(b.reads(), false, "", false)
	b.check(b.writes(), false, "", false)

	pipe := b.admin.Pipeline()
	for i := range 3000 {
		pipe.Set(t.Context(), "{padding}:"+strconv.Itoa(i), strings.Repeat("x", 100), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.do("CONFIG", "SET", "key-load-delay", "1000") // microseconds
	loaded := make(chan error, 1)
	go func() {
		loaded <- b.server.Client().Do(context.Background(), "DEBUG", "RELOAD").Err()
	}()
	redistest.Eventually(t, func() bool { return redis.HasErrorPrefix(b.admin.Get(t.Context(), "x").Err(), "LOADING") })
	some := calls{"stats": b.reads()["stats"], "due schedules": b.reads()["due schedules"]}
	b.check(some, true, "redis is loading its data", false)
	// A loading server may be too slow for the short attempts of the log.
	err := b.writes()["append"](t.Context())
	storetest.WantKind(t, "append while Redis loads", err, signal.KindUnavailable)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	b.check(b.reads(), false, "", false)
	b.check(b.writes(), false, "", false)
}

// Every pipeline goes through redisclient.Execute, which finds errors that the library does not
// report, and every error is made by redisclient.Unavailable, which names the fault.
func TestPipelinesAreExecutedInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	below, err2 := filepath.Glob("*/*.go")
	if files = append(files, below...); err != nil || err2 != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "redisclient/faults.go" || strings.HasPrefix(f, "redistest/") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{".Exec(", "Pipelined("} {
			if strings.Contains(string(text), call) {
				t.Errorf("%s calls %s: use redisclient.Execute", f, call)
			}
		}
		if strings.Contains(string(text), "signal.Unavailable(") {
			t.Errorf("%s calls signal.Unavailable: use redisclient.Unavailable", f)
		}
	}
}
