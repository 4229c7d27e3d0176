package persistence

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStreamStats(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	log, rdb, ctx := openLog(t, s, eventlog.LogOptions{}), server.Client(), t.Context()
	if err := s.Client.SyncClock(ctx); err != nil {
		t.Fatal(err)
	}
	at := storetest.FillEvents(t, rdb, s.Client.EventsKey(0), 300)
	if _, err := log.Append(ctx, storetest.Created(storetest.Signal(storetest.AccountIn(s.Client, 1)))); err != nil {
		t.Fatal(err)
	}
	rdb.Set(ctx, s.Client.PositionKey(0), at(99).String(), 0)
	job := time.Now().Add(-time.Minute).UnixMilli()
	queue := s.Client.JobQueueKey(2)
	for _, id := range []string{strconv.FormatInt(job, 10), "*"} {
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: queue, ID: id, Values: []string{"a", "b"}})
	}
	rdb.XGroupCreateMkStream(ctx, queue, eventlog.JobGroup, "0")
	rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: eventlog.JobGroup, Consumer: "n", Streams: []string{queue, ">"}, Count: 1, Block: -1,
	})
	got, err := s.Gauges.streamStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		stream, group string
		length, lag   int64
		oldest        time.Duration
	}{{"events", "engine", 302, 202, 2 * time.Hour}, {"signals", "", 1, 0, 0}, {"jobs", "jobs", 2, 1, time.Minute}}
	for i, w := range want {
		g := got[i]
		if g.Stream != w.stream || g.Group != w.group || g.Length != w.length || g.Lag != w.lag {
			t.Errorf("%+v, want %+v", g, w)
		}
		if d := g.Oldest - w.oldest; d < -time.Minute || d > time.Minute {
			t.Errorf("%s: the oldest is %v old, want %v", g.Stream, g.Oldest, w.oldest)
		}
	}
}
