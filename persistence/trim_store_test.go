package persistence

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// fillEvents appends n small events to the log of partition 0 and returns the
// position of the i-th.
func fillEvents(t *testing.T, b *logBench, n int) func(i int) signal.Position {
	t.Helper()
	header := codec.AppendEvent(nil, &signal.Event{Type: signal.SystemNotification, Account: codecAccount})
	old := time.Now().Add(-2 * time.Hour).UnixMilli()
	at := func(i int) signal.Position { return signal.Position{MS: old + int64(i)} }
	err := b.rdb.Eval(t.Context(), `for i = 0, ARGV[1] - 1 do
		redis.call('XADD', KEYS[1], string.format('%.0f-0', ARGV[2] + i), 'h', ARGV[3], 'd', i)
	end`, []string{redisclient.EventsKey(0)}, n, old, header).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return at
}

func TestStreamStats(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	ctx := t.Context()
	if err := b.store.SyncClock(ctx); err != nil {
		t.Fatal(err)
	}
	at := fillEvents(t, b, 300)
	b.append(created(logSignal(accountIn(b.store, 1))))
	b.rdb.Set(ctx, redisclient.PositionKey(0), at(99).String(), 0)
	job := time.Now().Add(-time.Minute).UnixMilli()
	b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: redisclient.JobQueueKey(2), ID: strconv.FormatInt(job, 10), Values: []string{"a", "b"}})
	b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: redisclient.JobQueueKey(2), Values: []string{"a", "b"}})
	b.rdb.XGroupCreateMkStream(ctx, redisclient.JobQueueKey(2), eventlog.JobGroup, "0")
	b.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: eventlog.JobGroup, Consumer: "n", Streams: []string{redisclient.JobQueueKey(2), ">"}, Count: 1, Block: -1})
	got, err := b.store.streamStats(ctx)
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

const codecAccount = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")
