package service

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// olderFile is a copy of a server's append-only file.
type olderFile struct{ server, dir string }

// copyFile copies the file of a server that does not run.
func copyFile(tb testing.TB, server *redistest.Server) olderFile {
	tb.Helper()
	f := olderFile{filepath.Join(server.Dir(), "appendonlydir"), filepath.Join(tb.TempDir(), "copy")}
	must(tb, os.CopyFS(f.dir, os.DirFS(f.server)))
	return f
}

// restore replaces the file of the server, which does not run.
func (f olderFile) restore(tb testing.TB) {
	tb.Helper()
	must(tb, os.RemoveAll(f.server))
	must(tb, os.CopyFS(f.server, os.DirFS(f.dir)))
}

// TestARedisRestoredFromAnOlderFile while two nodes run: what happened since the file is gone from everything
// that they answer, what was open then is watched again, and what has expired since is closed.
func TestARedisRestoredFromAnOlderFile(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	node := func() *service {
		c := testConfig(t, redis.URL())
		c.Cluster = true
		c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(sharedKeys), configs.Secret(sharedKeys)
		c.Security.RecordKeys = configs.Secret(sharedRecordKey(t))
		return start(t, c)
	}
	s, second := node(), node()
	prices := newMarket(t, redis.Client())
	prices.open("ACME", "101.25")
	s.awaitTrade(t, "ACME", 101.25)
	second.awaitTrade(t, "ACME", 101.25)
	trader, account := s.account(t)
	there := trader.at(second.url)
	awaitReady := func() {
		t.Helper()
		s.awaitReady(t)
		second.awaitReady(t)
	}
	eventually(t, "both own partitions", func() bool {
		return s.process.joined.Load().Owned() > 0 && second.process.joined.Load().Owned() > 0
	})
	first := trader.run("ACME", "momentum")
	text := &signal.Signal{ID: signal.NewSignalID(), Account: account.ID, Agent: "seo", Run: signal.NewRunID(),
		Asset: "desk", Strategy: "meta_tags", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long,
		Confidence: .5, Metadata: []byte(`{"indicators":["none"],"reasoning":"because"}`),
		CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	text.ExpiresAt = text.CreatedAt.Add(8 * time.Second) // after the file is copied, also on a busy machine
	made := storetest.Created(text)
	listing := text.Listing()
	made.Events[0].Listing = &listing
	_, err := s.process.events.Append(t.Context(), made)
	must(t, err)
	redis.Kill()
	file := copyFile(t, redis)
	redis.Restart()
	awaitReady()

	live := trader.dial()
	k := s.process.store.Client
	epochs := func() (epoch int64) {
		text, err := redis.Client().Get(t.Context(), k.EpochKey(k.Partition(account.ID))).Result()
		must(t, err)
		epoch, err = strconv.ParseInt(text, 10, 64)
		must(t, err)
		return epoch
	}
	expires := func(when string) {
		t.Helper()
		for _, c := range []*client{trader, there} {
			var is wireState
			eventually(t, "the text expires "+when, func() bool {
				is = c.state(string(text.ID))
				return is.Status == "closed"
			})
			if is.Reason == nil || *is.Reason != "expired" {
				t.Errorf("the text is closed %s: %+v", when, is)
			}
		}
	}
	_, secret, err := s.process.credentials.CreateKey(t.Context(), account.ID, "later", nil, nil)
	must(t, err)
	key := trader.with(secret)
	key.get("/v1/signals").ok(t)
	other, _ := s.account(t)
	other.get("/v1/signals").ok(t)
	later := there.awaitRun("ACME", "breakout")
	price := *first.Target + (*first.Target-*first.Entry)/100
	prices.tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	eventually(t, "the first is closed", func() bool { return trader.state(first.ID).Status == "closed" })
	third := trader.run("ACME", "momentum")
	live.signals(later.ID, third.ID)
	expires("first")
	place, epoch := live.last(), epochs()

	redis.Kill()
	file.restore(t)
	redis.Restart()
	awaitReady()
	key.await("/v1/signals", http.StatusUnauthorized)
	key.at(second.url).await("/v1/signals", http.StatusUnauthorized)
	other.await("/v1/signals", http.StatusUnauthorized)
	if code := live.closing(); code != 1001 {
		t.Errorf("a stream with a gap is closed with %d", code)
	}
	for _, c := range []*client{trader, there} {
		eventually(t, "what is lost is not listed", func() bool { return c.signals("").Total == 2 })
		c.lists("agent_id=trading", 1, first.ID)
		c.get("/v1/signals/"+third.ID).fails(t, "not_found")
	}
	back := there.dial()
	if d := back.subscribe(`"last_event_id":"` + place + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("resumed behind an event that is lost: %+v", d.Resumed)
	}
	// It is open again, and watched: its target is reached again.
	eventually(t, "the first is closed again", func() bool {
		prices.tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
		return trader.state(first.ID).Status == "closed"
	})
	expires("again")
	if now := epochs(); now <= epoch {
		t.Errorf("the epoch was %d before and is %d", epoch, now)
	}
	fourth := trader.awaitRun("ACME", "momentum")
	back.await("the next signal", func(m message) bool { return m.signalOf() == fourth.ID })
	for _, c := range []*client{trader, there} {
		eventually(t, "both are closed in lists", func() bool { return c.signals("status=open").Total == 1 })
		c.lists("agent_id=trading", 2, fourth.ID, first.ID)
		c.lists("agent_id=seo", 1, string(text.ID))
	}
}
