package backup

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// Otherwise the stored reply to the request that made a webhook or schedule would be restored without it.
func TestSettingsThatAreNewMeanwhileAreSaved(t *testing.T) {
	t.Parallel()
	from, to := redistest.New(t), redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: from.URL(), Partitions: 3})
	target := storetest.Client(t, redisclient.Options{URL: to.URL(), Partitions: 3})
	ctx, rdb, hour := t.Context(), c.RDB, c.Now().Add(time.Hour)
	const account = storetest.Account
	p := c.Partition(account)
	logs := eventlog.New(c)
	store := deliveries.New(c, storetest.Closing(t, eventlog.NewLog(logs, eventlog.LogOptions{})))
	register := func(url string) signal.WebhookID {
		t.Helper()
		w := storetest.Webhook(account)
		w.URL = url
		registered, err := store.Settings.Register(ctx, w, 10, nil)
		must(t, err)
		return registered.ID
	}
	old := register("https://example.com/old")
	must(t, rdb.HSet(ctx, c.AccountKey(account), "email", "a@example.com").Err())
	must(t, rdb.ZAdd(ctx, c.AccountsKey(), redis.Z{Score: 1, Member: string(account)}).Err())

	var added signal.WebhookID
	c.RDB.AddHook(afterCommands(func(name string) {
		if name != "multi xinfo" || added != "" {
			return
		}
		added = "being registered"
		added = register("https://example.com/new")
		must(t, rdb.Set(ctx, c.ReplyKey(p, account, "digest"), "0-0 a reply", time.Hour).Err())
		must(t, rdb.HSet(ctx, c.SchedulesKey(p, account), "sch_1", "a schedule").Err())
		must(t, rdb.ZAdd(ctx, c.SchedulesDueKey(p), storetest.DueAt(hour, string(account)+" sch_1")).Err())
	}))
	var file bytes.Buffer
	s, err := Save(ctx, c, &file, "test", nil)
	must(t, err)
	if s.Webhooks != 2 || s.Schedules != 1 {
		t.Errorf("the backup has %d webhooks and %d schedules, want 2 and 1", s.Webhooks, s.Schedules)
	}
	must(t, Begin(ctx, target))
	_, err = Load(ctx, target, &file)
	must(t, err)
	for _, id := range []signal.WebhookID{old, added} {
		if !target.RDB.HExists(ctx, target.WebhooksKey(p, account), string(id)).Val() {
			t.Errorf("webhook %s is not restored", id)
		}
	}
	want, got := rdb.HGetAll(ctx, c.WebhookStatsKey(p)).Val(), target.RDB.HGetAll(ctx, target.WebhookStatsKey(p)).Val()
	if d := cmp.Diff(want, got); len(want) == 0 || d != "" {
		t.Errorf("counts of webhooks (-before +restored):\n%s", d)
	}
	due := target.RDB.ZScore(ctx, target.SchedulesDueKey(p), string(account)+" sch_1").Val()
	if int64(due) != hour.UnixMilli() {
		t.Errorf("the new schedule is due at %.0f, want %d", due, hour.UnixMilli())
	}
	if target.RDB.Exists(ctx, target.ReplyKey(p, account, "digest")).Val() != 1 {
		t.Error("the reply is not restored")
	}
}
