package service

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
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

// TestARedisRestoredFromAnOlderFile while the service runs: what happened since the file is gone from everything
// that it answers, and what was open then is watched again.
func TestARedisRestoredFromAnOlderFile(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s, trader, account := startTrading(t, redis)
	prices := newMarket(t, redis.Client())
	first := trader.run("ACME", "momentum")
	redis.Kill()
	file := copyFile(t, redis)
	redis.Restart()
	s.awaitReady(t)

	live := trader.dial()
	k := s.process.store.Client
	epochs := func() (epoch int64) {
		text, err := redis.Client().Get(t.Context(), k.EpochKey(k.Partition(account.ID))).Result()
		must(t, err)
		epoch, err = strconv.ParseInt(text, 10, 64)
		must(t, err)
		return epoch
	}
	_, secret, err := s.process.credentials.CreateKey(t.Context(), account.ID, "later", nil, nil)
	must(t, err)
	key := trader.with(secret)
	key.get("/v1/signals").ok(t)
	other, _ := s.account(t)
	other.get("/v1/signals").ok(t)
	second := trader.awaitRun("ACME", "breakout")
	price := *first.Target + (*first.Target-*first.Entry)/100
	prices.tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	eventually(t, "the first is closed", func() bool { return trader.state(first.ID).Status == "closed" })
	third := trader.run("ACME", "momentum")
	live.signals(second.ID, third.ID)
	place, epoch := live.last(), epochs()

	redis.Kill()
	file.restore(t)
	redis.Restart()
	s.awaitReady(t)
	key.await("/v1/signals", http.StatusUnauthorized)
	other.await("/v1/signals", http.StatusUnauthorized)
	if code := live.closing(); code != 1001 {
		t.Errorf("a stream with a gap is closed with %d", code)
	}
	trader.lists("", 1, first.ID)
	trader.get("/v1/signals/"+third.ID).fails(t, "not_found")
	back := trader.dial()
	if d := back.subscribe(`"last_event_id":"` + place + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("resumed behind an event that is lost: %+v", d.Resumed)
	}
	// It is open again, and watched: its target is reached again.
	eventually(t, "the first is closed again", func() bool {
		prices.tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
		return trader.state(first.ID).Status == "closed"
	})
	trader.lists("status=open", 0)
	if now := epochs(); now <= epoch {
		t.Errorf("the epoch was %d before and is %d", epoch, now)
	}
	fourth := trader.awaitRun("ACME", "momentum")
	back.await("the next signal", func(m message) bool { return m.signalOf() == fourth.ID })
	trader.lists("", 2, fourth.ID, first.ID)
}
