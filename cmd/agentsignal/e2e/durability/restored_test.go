package durability

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
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
	e2e.Must(tb, os.CopyFS(f.dir, os.DirFS(f.server)))
	return f
}

// restore replaces the file of the server, which does not run.
func (f olderFile) restore(tb testing.TB) {
	tb.Helper()
	e2e.Must(tb, os.RemoveAll(f.server))
	e2e.Must(tb, os.CopyFS(f.server, os.DirFS(f.dir)))
}

// TestARedisRestoredFromAnOlderFile while two nodes run: what happened since the file is gone from everything
// that they answer, what was open then is watched again, and what has expired since is closed.
func TestARedisRestoredFromAnOlderFile(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	var dir string // of a node
	node := func() *e2e.Service {
		c := e2e.SigningConfig(t, redis.URL())
		dir = c.DataDir
		c.Cluster = true
		c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(e2e.SharedKeys), configs.Secret(e2e.SharedKeys)
		c.Security.RecordKeys = configs.Secret(e2e.SharedRecordKey(t))
		return e2e.Start(t, c)
	}
	s, second := node(), node()
	prices := e2e.NewMarket(t, redis.Client())
	prices.Open("ACME", "101.25")
	s.AwaitTrade(t, "ACME", 101.25)
	second.AwaitTrade(t, "ACME", 101.25)
	trader, account := s.Account(t)
	there := trader.At(second.URL)
	awaitReady := func() {
		t.Helper()
		s.AwaitReady(t)
		second.AwaitReady(t)
	}
	e2e.Eventually(t, "both own partitions", func() bool {
		return s.Partitions().Owned() > 0 && second.Partitions().Owned() > 0
	})
	first := trader.Run("ACME", "momentum")
	text := &signal.Signal{ID: signal.NewSignalID(), Account: account.ID, Agent: "seo", Run: signal.NewRunID(),
		Asset: "desk", Strategy: "meta_tags", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long,
		Confidence: .5, Metadata: []byte(`{"indicators":["none"],"reasoning":"because"}`),
		CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	text.ExpiresAt = text.CreatedAt.Add(8 * time.Second) // after the file is copied, also on a busy machine
	made := storetest.Created(text)
	listing := text.Listing()
	made.Events[0].Listing = &listing
	_, err := s.Events().Append(t.Context(), made)
	e2e.Must(t, err)
	redis.Kill()
	file := copyFile(t, redis)
	redis.Restart()
	awaitReady()

	live := trader.Dial()
	k := s.Store().Client
	epochs := func() (epoch int64) {
		text, err := redis.Client().Get(t.Context(), k.EpochKey(k.Partition(account.ID))).Result()
		e2e.Must(t, err)
		epoch, err = strconv.ParseInt(text, 10, 64)
		e2e.Must(t, err)
		return epoch
	}
	expires := func(when string) {
		t.Helper()
		for _, c := range []*e2e.Client{trader, there} {
			var is e2e.WireState
			e2e.Eventually(t, "the text expires "+when, func() bool {
				is = c.State(string(text.ID))
				return is.Status == "closed"
			})
			if is.Reason == nil || *is.Reason != "expired" {
				t.Errorf("the text is closed %s: %+v", when, is)
			}
		}
	}
	_, secret, err := s.Credentials().Keys.CreateKey(t.Context(), account.ID, "later", nil, nil)
	e2e.Must(t, err)
	key := trader.With(secret)
	key.Get("/v1/signals").Ok(t)
	other, _ := s.Account(t)
	other.Get("/v1/signals").Ok(t)
	later := there.AwaitRun("ACME", "breakout")
	price := *first.Target + (*first.Target-*first.Entry)/100
	prices.Tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	e2e.Eventually(t, "the first is closed", func() bool { return trader.State(first.ID).Status == "closed" })
	third := trader.Run("ACME", "momentum")
	live.Signals(later.ID, third.ID)
	expires("first")
	place, epoch := live.Last(), epochs()

	redis.Kill()
	file.restore(t)
	redis.Restart()
	awaitReady()
	key.Await("/v1/signals", http.StatusUnauthorized)
	key.At(second.URL).Await("/v1/signals", http.StatusUnauthorized)
	other.Await("/v1/signals", http.StatusUnauthorized)
	if code := live.Closing(); code != 1001 {
		t.Errorf("a stream with a gap is closed with %d", code)
	}
	for _, c := range []*e2e.Client{trader, there} {
		e2e.Eventually(t, "what is lost is not listed", func() bool { return c.Signals("").Total == 2 })
		c.Lists("agent_id=trading", 1, first.ID)
		c.Get("/v1/signals/"+third.ID).Fails(t, "not_found")
	}
	back := there.Dial()
	if d := back.Subscribe(`"last_event_id":"` + place + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("resumed behind an event that is lost: %+v", d.Resumed)
	}
	// It is open again, and watched: its target is reached again.
	e2e.Eventually(t, "the first is closed again", func() bool {
		prices.Tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
		return trader.State(first.ID).Status == "closed"
	})
	expires("again")
	if now := epochs(); now <= epoch {
		t.Errorf("the epoch was %d before and is %d", epoch, now)
	}
	fourth := trader.AwaitRun("ACME", "momentum")
	back.Await("the next signal", func(m e2e.Message) bool { return m.SignalOf() == fourth.ID })
	for _, c := range []*e2e.Client{trader, there} {
		e2e.Eventually(t, "both are closed in lists", func() bool { return c.Signals("status=open").Total == 1 })
		c.Lists("agent_id=trading", 2, fourth.ID, first.ID)
		c.Lists("agent_id=seo", 1, string(text.ID))
	}
	// The record goes on once an operator accepts what is lost.
	const refused = "no checkpoint is signed"
	e2e.Eventually(t, "a signer refuses", func() bool { return s.Log.Line(refused)+second.Log.Line(refused) != "" })
	last := trader.Checkpoint().Root.N
	out := e2e.StoreOperator(t, redis.URL(), "").Do("record", "accept-rollback", "--data-dir", dir)
	if !strings.Contains(out, fmt.Sprintf("goes on after number %d of", last)) {
		t.Errorf("the command prints %s", out)
	}
	e2e.Eventually(t, "the next checkpoint", func() bool { return trader.Checkpoint().Root.N >= last+2 })
	s.Log.Forget(refused)
	second.Log.Forget(refused)
}
