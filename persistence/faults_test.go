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
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/market"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/schedules"
)

// servicePassword is that of the user of a faultBench.
const servicePassword = "a-secret"

// faultBench is a store on a Redis that a test breaks, with a record of each kind in it.
type faultBench struct {
	*testing.T
	server    *redistest.Server
	admin     *redis.Conn // one connection, which no fault concerns
	store     *Store
	log       *eventlog.Log
	hooks     *Webhooks
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
	b.store = openStore(t, Options{URL: server.URLFor("service", servicePassword), Partitions: 2, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	b.log = openLog(t, b.store, eventlog.LogOptions{AppendTimeout: time.Second})
	b.hooks, b.schedules = NewWebhooks(b.store, b.log), NewSchedules(b.store, b.log)
	b.jobs, b.market = NewJobs(b.store, "node", jobs.Options{}), NewMarket(b.store)
	b.account = addAccount(t, b.store, "a@example.com")
	var err error
	if b.webhook, err = b.hooks.Register(t.Context(), testWebhook(b.account.ID), 10, nil); err != nil {
		t.Fatal(err)
	}
	if b.schedule, err = b.schedules.AddSchedule(t.Context(), testSchedule(b.account.ID), 10); err != nil {
		t.Fatal(err)
	}
	return b
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

// reads and writes are what the service asks of Redis, by name.
func (b *faultBench) reads() map[string]func(context.Context) error {
	p := b.store.Partition(b.account.ID)
	until := time.UnixMilli(2_000_000_000_000)
	return map[string]func(context.Context) error{
		"stats": func(ctx context.Context) error { _, err := b.store.streamStats(ctx); return err },
		"webhook": func(ctx context.Context) error {
			_, err := b.hooks.Webhook(ctx, b.account.ID, b.webhook.ID)
			return err
		},
		"webhooks":      func(ctx context.Context) error { _, err := b.hooks.Webhooks(ctx, b.account.ID); return err },
		"webhook stats": func(ctx context.Context) error { _, err := b.hooks.WebhookStats(ctx); return err },
		"due endpoints": func(ctx context.Context) error { _, err := b.hooks.DueEndpoints(ctx, p, until, 0, 10); return err },
		"due mails":     func(ctx context.Context) error { _, _, err := b.hooks.DueMails(ctx, p, until, 10); return err },
		"schedule": func(ctx context.Context) error {
			_, err := b.schedules.Schedule(ctx, b.account.ID, b.schedule.ID)
			return err
		},
		"schedules":     func(ctx context.Context) error { _, err := b.schedules.Schedules(ctx, b.account.ID); return err },
		"due schedules": func(ctx context.Context) error { _, _, err := b.schedules.DueSchedules(ctx, p, until, 10); return err },
		"waiting jobs":  func(ctx context.Context) error { _, err := b.jobs.Waiting(ctx); return err },
		"look for jobs": func(ctx context.Context) error { return b.jobs.Poll(ctx, time.Millisecond) },
		"account":       func(ctx context.Context) error { _, _, err := b.store.AccountByID(ctx, b.account.ID); return err },
		"accounts":      func(ctx context.Context) error { _, _, err := b.store.Accounts(ctx, 10, 0); return err },
		"keys":          func(ctx context.Context) error { _, err := b.store.Keys(ctx, b.account.ID); return err },
		"market":        func(ctx context.Context) error { _, err := b.market.State(ctx); return err },
		"bars":          func(ctx context.Context) error { _, _, err := b.market.Bars(ctx, "BTC", signal.M5); return err },
		"position":      func(ctx context.Context) error { _, err := b.store.EnginePosition(ctx, p); return err },
		"log":           func(ctx context.Context) error { _, err := b.store.ReadLog(ctx, p, signal.Position{}, 10); return err },
		"delivery": func(ctx context.Context) error {
			return absent(b.hooks.Delivery(ctx, b.account.ID, b.webhook.ID, signal.NewDeliveryID()))
		},
		"unsettled":    func(ctx context.Context) error { _, err := b.store.Unsettled(ctx, until, 10); return err },
		"overdue runs": func(ctx context.Context) error { _, err := b.store.OverdueRuns(ctx, p, until, 10); return err },
		"clock":        b.store.SyncClock,
		"due deliveries": func(ctx context.Context) error {
			_, _, err := b.hooks.DueDeliveries(ctx, p, b.account.ID, b.webhook.ID, until, 10, nil)
			return err
		},
	}
}

func (b *faultBench) writes() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"append": func(ctx context.Context) error { _, err := b.log.Append(ctx, noted(b.account.ID, "x")); return err },
		"account": func(ctx context.Context) error {
			return b.store.CreateAccount(ctx, credential.Account{ID: signal.NewAccountID(), Email: strconv.FormatInt(time.Now().UnixNano(), 36) + "@example.com", CreatedAt: nowMS()}, "hash")
		},
		"job": func(ctx context.Context) error {
			return b.jobs.Enqueue(ctx, newTestJob(b.account.ID, b.store.Now()), 1000, nil)
		},
		"lease": func(ctx context.Context) error {
			_, _, err := b.store.TakeLease(ctx, 0, "node", time.Minute)
			return err
		},
		"announce": func(ctx context.Context) error {
			_, err := b.store.AnnounceNode(ctx, "node", time.Minute, false)
			return err
		},
		"ticks": func(ctx context.Context) error {
			return b.market.GiveTicks(ctx, []marketdata.AssetTick{{Asset: "BTC"}})
		},
		"install": b.store.Install,
	}
}

// absent drops the error of what is not there.
func absent(_ delivery.Delivery, _ []byte, err error) error {
	if signal.KindOf(err) == signal.KindNotFound {
		return nil
	}
	return err
}

// check makes each of the calls. failing means that each must fail, and none may fail
// otherwise; every error is to be KindUnavailable and to name the fault.
func (b *faultBench) check(calls map[string]func(context.Context) error, failing bool, reason string, setting bool) {
	b.Helper()
	for name, call := range calls {
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
		if e, ok := errors.AsType[*signal.Error](err); ok && (strings.Contains(e.Message, "reach") || strings.Contains(e.Message, reason) == setting) {
			b.Errorf("%s: a client reads %q", name, e.Message)
		}
	}
}

// A Redis that answers with a refusal, whatever it is, makes every call fail with an
// error that names it; nothing panics, nothing is removed, and all is well afterwards.
func TestARedisThatRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason   string
		setting, reads bool // a setting is at fault; reads fail, too
		break_, heal   func(b *faultBench)
		except         []string // calls that fare otherwise
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
			// MULTI is refused even where it only reads, and a script that has removed something may write.
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
			b.wantReady("", false)
			c.break_(b)
			if c.reads { // connections that are about to be closed are
				eventually(t, func() bool {
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
				b.wantReady(c.reason, true)
			}
			c.heal(b)
			b.wantReady("", false)
			eventually(t, func() bool { return b.writes()["append"](t.Context()) == nil })
			for key, content := range before {
				if got := b.dump()[key]; got != content && !strings.HasSuffix(key, ":events") && !strings.Contains(key, ":batch:") {
					t.Errorf("%s has changed: %q, was %q", key, got, content)
				}
			}
			b.check(b.reads(), false, "", false)
			b.check(b.writes(), false, "", false)
		})
	}
}

// wantReady waits until Ready fails, or does not, and names the reason.
func (b *faultBench) wantReady(reason string, fails bool) {
	b.Helper()
	eventually(b.T, func() bool {
		err := b.store.Ready(b.Context())
		got, _ := redisclient.Refusal(err)
		return (err != nil) == fails && got == reason
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

// breakDisk has a snapshot fail: a directory stands where its file belongs.
func (b *faultBench) breakDisk() {
	if err := os.MkdirAll(filepath.Join(b.server.Dir(), "dump.rdb", "x"), 0o700); err != nil {
		b.Fatal(err)
	}
	b.do("CONFIG", "SET", "save", "3600 1")
	b.do("BGSAVE")
	eventually(b.T, func() bool {
		return strings.Contains(b.admin.Info(context.Background(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

func (b *faultBench) healDisk() { b.do("CONFIG", "SET", "save", "") }

// A store with a wrong password, or of a user that does not exist, fails in every call,
// and in none with a crash.
func TestAStoreWithAWrongPassword(t *testing.T) {
	t.Parallel()
	b := newFaultBench(t, redistest.New(t))
	for _, user := range []string{"service", "nobody", ""} {
		b.do("CONFIG", "SET", "requirepass", "something")
		b.store = openStore(t, Options{URL: b.server.URLFor(user, "wrong"), Partitions: 2})
		b.log = openLog(t, b.store, eventlog.LogOptions{AppendTimeout: time.Second})
		b.hooks, b.schedules = NewWebhooks(b.store, b.log), NewSchedules(b.store, b.log)
		b.jobs, b.market = NewJobs(b.store, "node", jobs.Options{}), NewMarket(b.store)
		b.check(b.reads(), true, redisclient.RefusesUser, true)
		b.check(b.writes(), true, redisclient.RefusesUser, true)
	}
	// And no password at all.
	b.store = openStore(t, Options{URL: b.server.URL(), Partitions: 2})
	b.jobs = NewJobs(b.store, "node", jobs.Options{})
	if _, err := b.jobs.Waiting(t.Context()); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without a password: %v", err)
	} else if reason, setting := redisclient.Refusal(err); reason != redisclient.RefusesUser || !setting {
		t.Errorf("without a password: %q of %v", reason, err)
	}
}

// While Redis is away calls fail as unavailable, while it loads its data they say so,
// and all is well when it is back.
func TestARedisThatRestartsAndLoads(t *testing.T) {
	t.Parallel()
	b := newFaultBench(t, redistest.NewDurable(t, "--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024"))
	b.server.Kill()
	for _, calls := range []map[string]func(context.Context) error{b.reads(), b.writes()} {
		for name, call := range calls {
			if err := call(t.Context()); name != "clock" && signal.KindOf(err) != signal.KindUnavailable {
				t.Errorf("%s while Redis is away: %v", name, err)
			} else if reason, _ := redisclient.Refusal(err); reason != "" {
				t.Errorf("%s while Redis is away: %q", name, reason)
			}
		}
	}
	b.server.Restart()
	b.connectAdmin()
	b.allowService()
	eventually(t, func() bool { return b.writes()["append"](t.Context()) == nil })
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
		reloader := redis.NewClient(&redis.Options{Network: "unix", Addr: strings.TrimPrefix(b.server.URL(), "unix://"), ReadTimeout: time.Minute})
		defer reloader.Close()
		loaded <- reloader.Do(context.Background(), "DEBUG", "RELOAD").Err()
	}()
	eventually(t, func() bool { return redis.HasErrorPrefix(b.admin.Get(t.Context(), "x").Err(), "LOADING") })
	b.check(map[string]func(context.Context) error{"stats": b.reads()["stats"], "due schedules": b.reads()["due schedules"]},
		true, "redis is loading its data", false)
	// A loading server may be too slow for the short attempts of the log.
	wantKind(t, "append while Redis loads", b.writes()["append"](t.Context()), signal.KindUnavailable)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	b.check(b.reads(), false, "", false)
	b.check(b.writes(), false, "", false)
}

// Every pipeline goes through redisclient.Execute, which sees what the library does not report, and
// every error is made by redisclient.Unavailable, which names the fault.
func TestPipelinesAreExecutedInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	below, err2 := filepath.Glob("*/*.go")
	if files = append(files, below...); err != nil || err2 != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "redis/faults.go" || strings.HasPrefix(f, "redistest/") || strings.HasPrefix(f, "barelog/") {
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
