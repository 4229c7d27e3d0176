package operations

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/backup"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// backupsOf returns the backups of settings in a file, as the commands get them.
func backupsOf(tb testing.TB, url, dir string, partitions int) *service.Backups {
	tb.Helper()
	text := fmt.Sprintf("redis:\n  url: %s\n  timeout: 20s\ndata_dir: %s\n", url, dir)
	if partitions > 0 {
		text += fmt.Sprintf("partitions: %d\n", partitions)
	}
	file := filepath.Join(tb.TempDir(), "config.yaml")
	e2e.Must(tb, os.WriteFile(file, []byte(text), 0o600))
	c, err := (&service.Settings{File: file}).Load()
	e2e.Must(tb, err)
	b, err := service.NewBackups(c)
	e2e.Must(tb, err)
	return b
}

// copied is an installation that is backed up, and what its clients know of it.
type copied struct {
	trader, busy *e2e.Client
	server       *redistest.Server
	running      []byte // the backup that was made while busy ran agents, and the trader did nothing
	quiet        []byte // one of the stopped service
	dir          string

	signals            []e2e.WireSignal // of the trader
	states             map[string]e2e.WireState
	open               int
	card, hooks, plans string // answers to the trader
	job                e2e.WireJob
	place              string // in the trader's stream, after which came two events
	again              string // the answer to the request with the Idempotency-Key
	acknowledged       []e2e.WireSignal
	hook               e2e.WireWebhook
	endpoint, closings *e2e.HookEndpoint
	failing            e2e.WireWebhook
	pending            string // the answer with the pending deliveries of failing

	// Before the restored service started:
	attempts  int             // at the endpoint
	delivered int             // requests at closings
	announced map[string]bool // the events of these
}

const repeatedRun = "Idempotency-Key: of-the-backup"

// TestBackupAndRestore copies a running installation to another server, and to a cluster with another number of
// partitions.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	b := backUp(t)
	t.Run("server", b.toAServer)
	t.Run("cluster", b.toACluster)
	t.Run("refused", b.refusals)
}

// copiedConfig is hookConfig for a service whose attempts at the hanging endpoint do not end, and whose failed
// deliveries stay pending.
func copiedConfig(tb testing.TB, url string) configs.Config {
	c := e2e.HookConfig(tb, url)
	c.Record.Every = configs.Duration(time.Second)
	c.Webhooks.Timeout = configs.Duration(10 * time.Minute)
	c.Webhooks.RetrySchedule = []configs.Duration{configs.Duration(time.Hour)}
	return c
}

// backUp fills an installation and copies it.
func backUp(t *testing.T) *copied {
	b := &copied{server: redistest.New(t)}
	c := copiedConfig(t, b.server.URL())
	b.dir = c.DataDir
	s := e2e.Start(t, c)
	prices := e2e.NewMarket(t, b.server.Client())
	prices.Open("ACME", "101.25")
	s.AwaitTrade(t, "ACME", 101.25)
	b.trader, _ = s.Account(t)
	b.busy, _ = s.Account(t)

	b.closings = e2e.NewHookEndpoint(t, nil)
	b.endpoint = e2e.NewHangingEndpoint(t)
	b.trader.Hook(b.closings.URL, "signal.closed")
	plan := b.trader.AddSchedule(
		`{"agent_id":"seo","assets":["oak chair"],"strategy":"meta_tags","timeframe":"1d","every":"1440m"}`)
	idle := b.trader.AddSchedule(`{"agent_id":"seo","assets":["desk"],"strategy":"meta_tags","timeframe":"1d","every":"1440m"}`)
	b.trader.Do("PATCH", "/v1/schedules/"+idle.ID, `{"status":"disabled"}`).Ok(t)
	b.trader.AfterRound(plan.ID)
	first := b.trader.Run("ACME", "momentum")
	prices.Tick("ACME", strconv.FormatFloat(*first.Target+(*first.Target-*first.Entry)/100, 'f', -1, 64))
	e2e.Eventually(t, "the first is closed", func() bool { return b.trader.State(first.ID).Status == "closed" })
	b.closings.Await(t, 1)
	b.job = b.trader.Completed(b.trader.Submit("ACME", "breakout").ID)
	live := b.trader.Dial()
	second := b.trader.Run("ACME", "momentum")
	live.Signals(second.ID)
	b.place = live.Last()
	b.hook = b.trader.Hook(b.endpoint.URL, "signal.created")
	b.failing = b.trader.Hook(e2e.NewFailingEndpoint(t, http.StatusServiceUnavailable, "").URL, "signal.created")
	b.again = b.trader.Post("/v1/agents/trading/run", e2e.RunBody("ACME", "momentum"), repeatedRun).Ok(t).Body
	b.endpoint.Await(t, 1)
	e2e.Eventually(t, "a delivery is pending", func() bool {
		b.pending = b.trader.PendingDeliveries(b.failing.ID)
		return strings.Contains(b.pending, `"status":"pending"`)
	})
	b.trader.Proof(second.ID)

	for range 20 {
		b.busy.Run("ACME", "momentum")
	}
	b.acknowledged = b.busy.AllSignals()
	running, end := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for running.Err() == nil {
			b.busy.Post("/v1/agents/trading/run", e2e.RunBody("ACME", "breakout"))
		}
	})
	backups := backupsOf(t, b.server.URL(), b.dir, 0)
	var file bytes.Buffer
	made, err := backups.Save(t.Context(), &file)
	end()
	busy.Wait()
	e2e.Must(t, err)
	if made.Accounts != 2 || made.APIKeys != 2 || made.Webhooks != 3 || made.Deliveries < 1 || made.Schedules != 2 ||
		made.Open < len(b.acknowledged) || made.SealedByOthers != 0 {
		t.Errorf("the backup has %+v", made)
	}
	b.running = bytes.Clone(file.Bytes())
	b.signals, b.states = b.trader.AllSignals(), map[string]e2e.WireState{}
	for _, o := range b.signals {
		b.states[o.ID] = b.trader.State(o.ID)
	}
	if b.open = b.trader.Signals("status=open&asset=ACME").Total; b.open == 0 {
		t.Fatal("no signal is open")
	}
	b.card, b.hooks = b.trader.Statistics(), b.trader.Get("/v1/webhooks").Ok(t).Body
	b.plans = b.trader.Get("/v1/schedules").Ok(t).Body
	s.Stop(t)
	file.Reset()
	_, err = backups.Save(t.Context(), &file)
	e2e.Must(t, err)
	b.quiet = file.Bytes()
	return b
}

// startRestored restores a file into url and starts a service there, with those keys of the one that was copied.
// restored is called between the two.
func (b *copied) startRestored(
	t *testing.T, file []byte, url string, partitions int, keys []string, restored func(),
) (*e2e.Service, *e2e.Client) {
	t.Helper()
	c := copiedConfig(t, url)
	for _, key := range keys {
		text, err := os.ReadFile(filepath.Join(b.dir, key))
		e2e.Must(t, err)
		e2e.Must(t, os.WriteFile(filepath.Join(c.DataDir, key), text, 0o600))
	}
	has, err := backupsOf(t, url, c.DataDir, partitions).Restore(t.Context(), bytes.NewReader(file), false)
	e2e.Must(t, err)
	if has.Unreadable != 0 {
		t.Errorf("restored: %+v", has)
	}
	restored()
	before := b.closings.Got()
	b.attempts, b.delivered, b.announced = len(b.endpoint.Got()), len(before), map[string]bool{}
	for _, a := range before {
		b.announced[a.Event()] = true
	}
	s := e2e.Start(t, c)
	return s, b.trader.At(s.URL)
}

// compare compares all keys with those of the copied server.
func (b *copied) compare(t *testing.T, rdb *redis.Client) {
	t.Helper()
	got, want := b.contents(t, rdb), b.contents(t, b.server.Client())
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what is in Redis (-before +restored):\n%s", d)
	}
	if len(got) < 30 {
		t.Errorf("only %d keys were compared", len(got))
	}
}

// ofDeliveries are keys that hold ended deliveries as well, which are not kept, or ids that are made again.
var ofDeliveries = regexp.MustCompile(`:(deliveries|recorded):|:(bodies|bodyrefs|jobqueue)$`)

// contents returns what a backup keeps of all keys.
func (b *copied) contents(t *testing.T, rdb *redis.Client) map[string]any {
	t.Helper()
	all := map[string]any{}
	ctx := t.Context()
	for _, key := range rdb.Keys(ctx, "*").Val() {
		kept, why, known := backup.Kept(key)
		if !known {
			t.Errorf("%s is of a kind that backups do not know", key)
		}
		if !kept && why == "" {
			t.Errorf("%s is not kept without a reason", key)
		}
		if !kept || ofDeliveries.MatchString(key) {
			continue
		}
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "string":
			all[key] = rdb.Get(ctx, key).Val()
		case "hash":
			all[key] = rdb.HGetAll(ctx, key).Val()
		case "zset":
			all[key] = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "set":
			all[key] = rdb.SMembersMap(ctx, key).Val()
		case "stream":
			info := rdb.XInfoStream(ctx, key).Val()
			all[key] = rdb.XRange(ctx, key, "-", "+").Val()
			all[key+" end"] = []any{info.LastGeneratedID, info.EntriesAdded, info.MaxDeletedEntryID}
		default:
			t.Errorf("%s is a %s", key, kind)
		}
	}
	return all
}

// same checks what the trader sees.
func (b *copied) same(t *testing.T, trader *e2e.Client) {
	t.Helper()
	if d := cmp.Diff(b.signals, trader.AllSignals()); d != "" {
		t.Errorf("signals (-before +restored):\n%s", d)
	}
	for id, want := range b.states {
		if d := cmp.Diff(e2e.JsonOf(t, want), e2e.JsonOf(t, trader.State(id))); d != "" {
			t.Errorf("a signal (-before +restored):\n%s", d)
		}
	}
	if got := trader.Statistics(); !e2e.Same(b.card, got) {
		t.Errorf("the scorecard is\n%s\nand was\n%s", got, b.card)
	}
	for path, want := range map[string]string{"/v1/webhooks": b.hooks, "/v1/schedules": b.plans} {
		if got := trader.Get(path).Ok(t).Body; !e2e.Same(want, got) {
			t.Errorf("%s is\n%s\nand was\n%s", path, got, want)
		}
	}
	if got := trader.PendingDeliveries(b.failing.ID); !e2e.Same(b.pending, got) {
		t.Errorf("pending deliveries are\n%s\nand were\n%s", got, b.pending)
	}
	if got := trader.Completed(b.job.ID); got.Signal.ID != b.job.Signal.ID {
		t.Errorf("the job has signal %s, before %s", got.Signal.ID, b.job.Signal.ID)
	}
	if again := trader.Post("/v1/agents/trading/run", e2e.RunBody("ACME", "momentum"), repeatedRun); again.Body != b.again {
		t.Errorf("a repeated request is answered with %s, first it was %s", again.Body, b.again)
	}
}

// goesOn checks that what was open closes, once, and that pending deliveries arrive, signed as before.
func (b *copied) goesOn(t *testing.T, s *e2e.Service, trader *e2e.Client, rdb redis.Cmdable) {
	t.Helper()
	b.endpoint.Release()
	arrived := b.endpoint.Await(t, b.attempts+1)
	arrived[len(arrived)-1].Verify(t, b.hook.Secret)
	prices, beyond := e2e.NewMarket(t, rdb), 0.0
	for _, o := range b.states {
		if o.Target != nil && o.Stop != nil {
			beyond = max(beyond, *o.Target+1, *o.Stop+1)
		}
	}
	e2e.Eventually(t, "open signals are closed", func() bool {
		prices.Tick("ACME", strconv.FormatFloat(beyond, 'f', -1, 64))
		return trader.Signals("status=open&asset=ACME").Total == 0
	})
	e2e.Eventually(t, "all closings are delivered", func() bool { return len(b.closedSince(t)) >= b.open })
	next := trader.AwaitRun("ACME", "momentum")
	trader.Lists("limit=1", len(b.signals)+1, next.ID)
	if seen := b.closedSince(t); len(seen) != b.open {
		t.Errorf("%d deliveries came of %d closings: %v", len(seen), b.open, seen)
	}
}

// closedSince returns the deliveries of closings since the restored service was started, which has to send none of
// the events again that had their effect before the backup.
func (b *copied) closedSince(t *testing.T) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, a := range b.closings.Got()[b.delivered:] {
		if b.announced[a.Event()] {
			t.Errorf("%s is delivered again", a.Event())
		}
		seen[a.Delivery()]++
	}
	return seen
}

func (b *copied) toAServer(t *testing.T) {
	redis := redistest.New(t)
	keys := []string{"encryption.key", "jwt.key", "record.key"}
	s, trader := b.startRestored(t, b.quiet, redis.URL(), 0, keys, func() { b.compare(t, redis.Client()) })
	b.same(t, trader)
	live := trader.Dial()
	if d := live.Subscribe(`"last_event_id":"` + b.place + `"`); d.Resumed == nil || !d.Resumed.Complete {
		t.Errorf("the stream is resumed with %+v", d.Resumed)
	}
	for _, o := range b.signals {
		if o.Asset == "ACME" {
			trader.Proof(o.ID)
		}
	}
	b.goesOn(t, s, trader, redis.Client())
}

func (b *copied) toACluster(t *testing.T) {
	cluster := redistest.NewCluster(t, 3)
	const partitions = 5
	keys := []string{"encryption.key", "jwt.key"} // another number of partitions needs a new record
	s, trader := b.startRestored(t, b.running, cluster.URL(), partitions, keys, func() {})
	b.same(t, trader)
	live := trader.Dial()
	if d := live.Subscribe(`"last_event_id":"` + b.place + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("a stream of other partitions is resumed with %+v", d.Resumed)
	}
	restored := map[string]bool{}
	busy := b.busy.At(s.URL)
	all := busy.AllSignals()
	for _, r := range all {
		if restored[r.ID] {
			t.Errorf("%s is there twice", r.ID)
		}
		restored[r.ID] = true
	}
	for _, r := range b.acknowledged {
		if !restored[r.ID] {
			t.Errorf("%s was acknowledged before the backup and is lost", r.ID)
		}
	}
	if open := busy.Signals("status=open").Total; open != len(all) {
		t.Errorf("%d of %d signals are open", open, len(all))
	}
	trader.Proof(b.signals[0].ID)
	busy.Proof(b.acknowledged[0].ID)
	b.goesOn(t, s, trader, cluster.Client())
	// Each signal of the log was among the open ones.
	e2e.Eventually(t, "all signals of the busy account are closed", func() bool { return busy.Signals("status=open").Total == 0 })
}

// refusals of what would overwrite something, or could not be used.
func (b *copied) refusals(t *testing.T) {
	empty := redistest.New(t)
	dir := t.TempDir()
	restore := func(file []byte, url, dir string) error {
		_, err := backupsOf(t, url, dir, 0).Restore(t.Context(), bytes.NewReader(file), false)
		return err
	}
	newer := append([]byte("agentsignal backup 2\n"), b.quiet[len("agentsignal backup 1\n"):]...)
	changed := bytes.Clone(b.quiet)
	changed[len(changed)/2] ^= 1
	for name, c := range map[string]struct {
		file     []byte
		url, dir string
		want     string
	}{
		"not empty":      {b.quiet, b.server.URL(), b.dir, "not empty"},
		"other keys":     {b.quiet, empty.URL(), dir, "do not decrypt the secrets of 3 webhooks"},
		"cut short":      {b.quiet[:len(b.quiet)-1], empty.URL(), b.dir, "damaged"},
		"changed":        {changed, empty.URL(), b.dir, "damaged"},
		"longer":         {append(bytes.Clone(b.quiet), 0), empty.URL(), b.dir, "damaged"},
		"a newer format": {newer, empty.URL(), b.dir, "later version"},
		"another file":   {[]byte("REDIS0011"), empty.URL(), b.dir, "damaged"},
	} {
		if err := restore(c.file, c.url, c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if n := empty.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("a refused restore has written %d keys", n)
	}

	// A restore that was interrupted: no service starts, and it can be repeated.
	rdb := empty.Client()
	e2e.Must(t, rdb.HSet(t.Context(), e2e.NewKeys.InstallationKey(), "partitions", "restoring").Err())
	e2e.Must(t, rdb.Set(t.Context(), e2e.NewKeys.PositionKey(3), "1-1", time.Hour).Err())
	e2e.Must(t, rdb.Set(t.Context(), "of others", "x", 0).Err())
	c := e2e.TestConfig(t, empty.URL())
	s := e2e.Begin(t, c)
	<-s.Ended
	if s.Err == nil || !strings.Contains(s.Err.Error(), "restore") {
		t.Errorf("a service starts in a Redis that is being restored: %v", s.Err)
	}
	e2e.Must(t, restore(b.quiet, empty.URL(), b.dir))
	if ttl := rdb.TTL(t.Context(), e2e.NewKeys.PositionKey(3)).Val(); ttl > 0 || rdb.Get(t.Context(), "of others").Val() != "x" {
		t.Errorf("what an interrupted restore has left is still there, or more was removed")
	}
}
