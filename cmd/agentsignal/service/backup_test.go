package service

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/backup"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// settingsOf returns settings from a file, as the commands get them.
func settingsOf(tb testing.TB, url, dir string, partitions int) *Settings {
	tb.Helper()
	text := fmt.Sprintf("redis:\n  url: %s\n  timeout: 20s\ndata_dir: %s\n", url, dir)
	if partitions > 0 {
		text += fmt.Sprintf("partitions: %d\n", partitions)
	}
	file := filepath.Join(tb.TempDir(), "config.yaml")
	must(tb, os.WriteFile(file, []byte(text), 0o600))
	return &Settings{File: file}
}

// copied is an installation that is backed up, and what its clients know of it.
type copied struct {
	trader, busy *client
	server       *redistest.Server
	running      []byte // the backup that was made while busy ran agents, and the trader did nothing
	quiet        []byte // one of the stopped service
	dir          string

	signals            []wireSignal // of the trader
	states             map[string]wireState
	open               int
	card, hooks, plans string // answers to the trader
	job                wireJob
	place              string // in the trader's stream, after which came two events
	again              string // the answer to the request with the Idempotency-Key
	acknowledged       []wireSignal
	hook               wireWebhook
	endpoint, closings *hookEndpoint
	failing            wireWebhook
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
	c := hookConfig(tb, url)
	c.Webhooks.Timeout = configs.Duration(10 * time.Minute)
	c.Webhooks.RetrySchedule = []configs.Duration{configs.Duration(time.Hour)}
	return c
}

// backUp fills an installation and copies it.
func backUp(t *testing.T) *copied {
	b := &copied{server: redistest.New(t)}
	c := copiedConfig(t, b.server.URL())
	b.dir = c.DataDir
	s := start(t, c, signOften)
	prices := newMarket(t, b.server.Client())
	prices.open("ACME", "101.25")
	s.awaitTrade(t, "ACME", 101.25)
	b.trader, _ = s.account(t)
	b.busy, _ = s.account(t)

	b.closings = newHookEndpoint(t, nil)
	b.endpoint = newHangingEndpoint(t)
	b.trader.hook(b.closings.url, "signal.closed")
	plan := b.trader.addSchedule(
		`{"agent_id":"seo","assets":["oak chair"],"strategy":"meta_tags","timeframe":"1d","every":"1440m"}`)
	idle := b.trader.addSchedule(`{"agent_id":"seo","assets":["desk"],"strategy":"meta_tags","timeframe":"1d","every":"1440m"}`)
	b.trader.do("PATCH", "/v1/schedules/"+idle.ID, `{"status":"disabled"}`).ok(t)
	b.trader.afterRound(plan.ID)
	first := b.trader.run("ACME", "momentum")
	prices.tick("ACME", strconv.FormatFloat(*first.Target+(*first.Target-*first.Entry)/100, 'f', -1, 64))
	eventually(t, "the first is closed", func() bool { return b.trader.state(first.ID).Status == "closed" })
	b.closings.await(t, 1)
	b.job = b.trader.completed(b.trader.submit("ACME", "breakout").ID)
	live := b.trader.dial()
	second := b.trader.run("ACME", "momentum")
	live.signals(second.ID)
	b.place = live.last()
	b.hook = b.trader.hook(b.endpoint.url, "signal.created")
	b.failing = b.trader.hook(newFailingEndpoint(t, http.StatusServiceUnavailable, "").url, "signal.created")
	b.again = b.trader.post("/v1/agents/trading/run", runBody("ACME", "momentum"), repeatedRun).ok(t).Body
	b.endpoint.await(t, 1)
	eventually(t, "a delivery is pending", func() bool {
		b.pending = b.trader.pendingDeliveries(b.failing.ID)
		return strings.Contains(b.pending, `"status":"pending"`)
	})
	b.trader.proof(second.ID)

	for range 20 {
		b.busy.run("ACME", "momentum")
	}
	b.acknowledged = b.busy.allSignals()
	running, end := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for running.Err() == nil {
			b.busy.post("/v1/agents/trading/run", runBody("ACME", "breakout"))
		}
	})
	settings := settingsOf(t, b.server.URL(), b.dir, 0)
	var file bytes.Buffer
	made, err := settings.Backup(t.Context(), &file)
	end()
	busy.Wait()
	must(t, err)
	if made.Accounts != 2 || made.APIKeys != 2 || made.Webhooks != 3 || made.Deliveries < 1 || made.Schedules != 2 ||
		made.Open < len(b.acknowledged) || made.SealedByOthers != 0 {
		t.Errorf("the backup has %+v", made)
	}
	b.running = bytes.Clone(file.Bytes())
	b.signals, b.states = b.trader.allSignals(), map[string]wireState{}
	for _, o := range b.signals {
		b.states[o.ID] = b.trader.state(o.ID)
	}
	if b.open = b.trader.signals("status=open&asset=ACME").Total; b.open == 0 {
		t.Fatal("no signal is open")
	}
	b.card, b.hooks = b.trader.statistics(), b.trader.get("/v1/webhooks").ok(t).Body
	b.plans = b.trader.get("/v1/schedules").ok(t).Body
	s.stop(t)
	file.Reset()
	_, err = settings.Backup(t.Context(), &file)
	must(t, err)
	b.quiet = file.Bytes()
	return b
}

// startRestored restores a file into url and starts a service there, with those keys of the one that was copied.
// restored is called between the two.
func (b *copied) startRestored(
	t *testing.T, file []byte, url string, partitions int, keys []string, restored func(),
) (*service, *client) {
	t.Helper()
	c := copiedConfig(t, url)
	for _, key := range keys {
		text, err := os.ReadFile(filepath.Join(b.dir, key))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(c.DataDir, key), text, 0o600))
	}
	has, err := settingsOf(t, url, c.DataDir, partitions).Restore(t.Context(), bytes.NewReader(file), false)
	must(t, err)
	if has.Unreadable != 0 {
		t.Errorf("restored: %+v", has)
	}
	restored()
	before := b.closings.got()
	b.attempts, b.delivered, b.announced = len(b.endpoint.got()), len(before), map[string]bool{}
	for _, a := range before {
		b.announced[a.event()] = true
	}
	s := start(t, c, signOften)
	return s, b.trader.at(s.url)
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
func (b *copied) same(t *testing.T, trader *client) {
	t.Helper()
	if d := cmp.Diff(b.signals, trader.allSignals()); d != "" {
		t.Errorf("signals (-before +restored):\n%s", d)
	}
	for id, want := range b.states {
		if d := cmp.Diff(jsonOf(t, want), jsonOf(t, trader.state(id))); d != "" {
			t.Errorf("a signal (-before +restored):\n%s", d)
		}
	}
	if got := trader.statistics(); !same(b.card, got) {
		t.Errorf("the scorecard is\n%s\nand was\n%s", got, b.card)
	}
	for path, want := range map[string]string{"/v1/webhooks": b.hooks, "/v1/schedules": b.plans} {
		if got := trader.get(path).ok(t).Body; !same(want, got) {
			t.Errorf("%s is\n%s\nand was\n%s", path, got, want)
		}
	}
	if got := trader.pendingDeliveries(b.failing.ID); !same(b.pending, got) {
		t.Errorf("pending deliveries are\n%s\nand were\n%s", got, b.pending)
	}
	if got := trader.completed(b.job.ID); got.Signal.ID != b.job.Signal.ID {
		t.Errorf("the job has signal %s, before %s", got.Signal.ID, b.job.Signal.ID)
	}
	if again := trader.post("/v1/agents/trading/run", runBody("ACME", "momentum"), repeatedRun); again.Body != b.again {
		t.Errorf("a repeated request is answered with %s, first it was %s", again.Body, b.again)
	}
}

// pendingDeliveries returns the answer with the pending deliveries of a webhook.
func (c *client) pendingDeliveries(webhook string) string {
	c.tb.Helper()
	return c.get("/v1/webhooks/" + webhook + "/deliveries?status=pending").ok(c.tb).Body
}

// statistics returns those of the scorecard.
func (c *client) statistics() string {
	c.tb.Helper()
	return string(decode[struct{ Statistics json.RawMessage }](c.tb, c.get("/v1/scorecard").ok(c.tb).Body).Statistics)
}

// goesOn checks that what was open closes, once, and that pending deliveries arrive, signed as before.
func (b *copied) goesOn(t *testing.T, s *service, trader *client, rdb redis.Cmdable) {
	t.Helper()
	b.endpoint.release()
	arrived := b.endpoint.await(t, b.attempts+1)
	arrived[len(arrived)-1].verify(t, b.hook.Secret)
	prices, beyond := newMarket(t, rdb), 0.0
	for _, o := range b.states {
		if o.Target != nil && o.Stop != nil {
			beyond = max(beyond, *o.Target+1, *o.Stop+1)
		}
	}
	eventually(t, "open signals are closed", func() bool {
		prices.tick("ACME", strconv.FormatFloat(beyond, 'f', -1, 64))
		return trader.signals("status=open&asset=ACME").Total == 0
	})
	eventually(t, "all closings are delivered", func() bool { return len(b.closedSince(t)) >= b.open })
	next := trader.awaitRun("ACME", "momentum")
	trader.lists("limit=1", len(b.signals)+1, next.ID)
	if seen := b.closedSince(t); len(seen) != b.open {
		t.Errorf("%d deliveries came of %d closings: %v", len(seen), b.open, seen)
	}
}

// closedSince returns the deliveries of closings since the restored service was started, which has to send none of
// the events again that had their effect before the backup.
func (b *copied) closedSince(t *testing.T) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, a := range b.closings.got()[b.delivered:] {
		if b.announced[a.event()] {
			t.Errorf("%s is delivered again", a.event())
		}
		seen[a.delivery()]++
	}
	return seen
}

func (b *copied) toAServer(t *testing.T) {
	redis := redistest.New(t)
	keys := []string{encryptionKeyFile, jwtKeyFile, recordKeyFile}
	s, trader := b.startRestored(t, b.quiet, redis.URL(), 0, keys, func() { b.compare(t, redis.Client()) })
	b.same(t, trader)
	live := trader.dial()
	if d := live.subscribe(`"last_event_id":"` + b.place + `"`); d.Resumed == nil || !d.Resumed.Complete {
		t.Errorf("the stream is resumed with %+v", d.Resumed)
	}
	for _, o := range b.signals {
		if o.Asset == "ACME" {
			trader.proof(o.ID)
		}
	}
	b.goesOn(t, s, trader, redis.Client())
}

func (b *copied) toACluster(t *testing.T) {
	cluster := redistest.NewCluster(t, 3)
	const partitions = 5
	keys := []string{encryptionKeyFile, jwtKeyFile} // another number of partitions needs a new record
	s, trader := b.startRestored(t, b.running, cluster.URL(), partitions, keys, func() {})
	b.same(t, trader)
	live := trader.dial()
	if d := live.subscribe(`"last_event_id":"` + b.place + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("a stream of other partitions is resumed with %+v", d.Resumed)
	}
	restored := map[string]bool{}
	busy := b.busy.at(s.url)
	all := busy.allSignals()
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
	if open := busy.signals("status=open").Total; open != len(all) {
		t.Errorf("%d of %d signals are open", open, len(all))
	}
	trader.proof(b.signals[0].ID)
	busy.proof(b.acknowledged[0].ID)
	b.goesOn(t, s, trader, cluster.Client())
	// Each signal of the log was among the open ones.
	eventually(t, "all signals of the busy account are closed", func() bool { return busy.signals("status=open").Total == 0 })
}

// refusals of what would overwrite something, or could not be used.
func (b *copied) refusals(t *testing.T) {
	empty := redistest.New(t)
	dir := t.TempDir()
	restore := func(file []byte, url, dir string) error {
		_, err := settingsOf(t, url, dir, 0).Restore(t.Context(), bytes.NewReader(file), false)
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
	must(t, rdb.HSet(t.Context(), newKeys.InstallationKey(), "partitions", "restoring").Err())
	must(t, rdb.Set(t.Context(), newKeys.PositionKey(3), "1-1", time.Hour).Err())
	must(t, rdb.Set(t.Context(), "of others", "x", 0).Err())
	c := testConfig(t, empty.URL())
	s := begin(t, c)
	<-s.ended
	if s.err == nil || !strings.Contains(s.err.Error(), "restore") {
		t.Errorf("a service starts in a Redis that is being restored: %v", s.err)
	}
	must(t, restore(b.quiet, empty.URL(), b.dir))
	if ttl := rdb.TTL(t.Context(), newKeys.PositionKey(3)).Val(); ttl > 0 || rdb.Get(t.Context(), "of others").Val() != "x" {
		t.Errorf("what an interrupted restore has left is still there, or more was removed")
	}
}
