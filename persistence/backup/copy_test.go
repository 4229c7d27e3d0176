package backup

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	leafstore "github.com/agentsignal/agentsignal/persistence/leaves"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// TestSeldomKeysAreCopied copies the kinds of keys that a service seldom has; TestBackupAndRestore has the others.
func TestSeldomKeysAreCopied(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, to := redistest.New(t), redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: from.URL(), Partitions: 3})
	const account = storetest.Account
	p := c.Partition(account)
	logs := eventlog.New(c)
	log := storetest.Closing(t, eventlog.NewLog(logs, eventlog.LogOptions{}))
	hook, err := deliveries.New(c, log).Settings.Register(ctx, storetest.Webhook(account), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	hour := c.Now().Add(time.Hour)
	mail := []byte{1} // a version and the texts of a mail
	for _, text := range []string{"webhook_failing", string(account), string(hook.ID), hook.URL} {
		mail = codec.AppendString(mail, text)
	}
	mail = codec.AppendString(append(mail, 0, 0), "refused") // behind two times
	schedule := string(account) + " sch_1"
	due := storetest.DueAt(hour, schedule)
	seeds := c.RDB.Pipeline()
	seeds.HSet(ctx, c.AccountKey(account), "email", "a@example.com")
	seeds.HSet(ctx, c.SlugsKey(), "of-a-record", string(account), "of-no-record", "acc_deleted")
	seeds.Set(ctx, c.EmailKey("a@example.com"), string(account), 0)
	seeds.ZAdd(ctx, c.AccountsKey(), redis.Z{Score: 1, Member: string(account)})
	seeds.HSet(ctx, c.APIKeyKey("digest"), "account", string(account), "created", "7", "id", "key_1", "name", "ann", "view", "{}")
	seeds.HSet(ctx, c.ReadersOfKey(account), "name:ann", "key_1", "id:key_1", "digest")
	seeds.ZAdd(ctx, c.ReaderIDsKey(account), redis.Z{Score: 7, Member: "key_1"})
	seeds.HSet(ctx, c.SchedulesKey(p, account), "sch_1", "a schedule")
	seeds.HSet(ctx, c.ScheduleRoundsKey(p, account), "sch_1 rounds", "4")
	seeds.ZAdd(ctx, c.SchedulesDueKey(p), storetest.DueAt(c.Now(), schedule))
	seeds.ZAdd(ctx, c.RunsDueKey(p), storetest.DueAt(hour, string(account)+" run_1 trading"))
	seeds.HSet(ctx, c.WaitsKey(p, hook.ID), "sig_1", "a wait")
	seeds.PExpireAt(ctx, c.WaitsKey(p, hook.ID), hour)
	seeds.HSet(ctx, c.WebhookHealthKey(p, account), string(hook.ID), "its health")
	seeds.ZAdd(ctx, c.MailsKey(p), storetest.DueAt(hour, "mail_1"))
	seeds.HSet(ctx, c.MailRecordsKey(p), "mail_1", append(mail, 0))
	seeds.HSet(ctx, c.EraseKey(c.Partition("acc_deleted")), "acc_deleted", "4 1795253400123 13 17 a process")
	seeds.HSet(ctx, c.AuditKey(1), "at", "a time")
	seeds.HSet(ctx, c.LeafMonthsKey(p), string(account)+" 1", "a month")
	seeds.HSet(ctx, c.CountersignedKey(0), "a witness", "its checkpoint")
	seeds.ZAdd(ctx, c.OutboxKey(), storetest.DueAt(hour, "an event"))
	seeds.Set(ctx, c.WeatherKey("archive"), "days", 0)
	seeds.Set(ctx, c.WeatherKey("forecast"), "days", time.Hour)
	seeds.XTrimMaxLen(ctx, c.EventsKey(p), 0)
	for _, id := range []string{"7-1", "8-1"} {
		seeds.XAdd(ctx, &redis.XAddArgs{Stream: c.MarketNewsKey(), ID: id, Values: []string{"n", "news"}})
	}
	seeds.XDel(ctx, c.MarketNewsKey(), "8-1")
	seeds.HSet(ctx, c.MarketOutcomeBarsKey(signal.H1), "BTC", "1")
	if err := redisclient.Execute(ctx, seeds); err != nil {
		t.Fatal(err)
	}
	seeds.Set(ctx, c.RollbackKey(0), "a rollback", 0)
	checkpoint, pieces := storetest.Checkpoint(t, c.Now(), make([]tlog.Tree, 3))
	epoch := storetest.Take(t, logs.Leases, 0, "signer", time.Minute)
	if err := leafstore.New(c).StoreCheckpoint(ctx, epoch, checkpoint, nil, pieces); err != nil {
		t.Fatal(err)
	}
	// A schedule runs while the backup is made: what is due next is that of the cut.
	ran := false
	c.RDB.AddHook(afterCommands(func(name string) {
		if name == "zscore" && !ran {
			ran = true
			from.Client().ZAdd(ctx, c.SchedulesDueKey(p), due)
		}
	}))
	var file bytes.Buffer
	if _, err := Save(ctx, c, &file, "test", nil); err != nil || !ran {
		t.Fatal(err, ran)
	}
	target := storetest.Client(t, redisclient.Options{URL: to.URL(), Partitions: 3})
	if err := Begin(ctx, target); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(ctx, target, &file); err != nil {
		t.Fatal(err)
	}
	// The erasing begins again.
	erasing := c.EraseKey(c.Partition("acc_deleted"))
	state := target.RDB.HGet(ctx, erasing, "acc_deleted").Val()
	if !strings.HasSuffix(state, " 0  ") {
		t.Errorf("the restored state of an erasing is %q, want the first stage", state)
	}
	from.Client().HSet(ctx, erasing, "acc_deleted", state)
	if d := cmp.Diff(kept(t, from.Client()), kept(t, to.Client())); d != "" {
		t.Errorf("what a backup keeps (-before +restored):\n%s", d)
	}
}

// kept returns the contents of all keys that a backup keeps as they are, and when they expire.
func kept(tb testing.TB, rdb *redis.Client) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for _, key := range rdb.Keys(tb.Context(), "*").Val() {
		if kept, _, known := Kept(key); !kept && known {
			continue
		}
		value := rdb.Dump(tb.Context(), key).Val()
		if info, err := rdb.XInfoStream(tb.Context(), key).Result(); err == nil { // deleted entries stay in its dump
			value = fmt.Sprintln(rdb.XRange(tb.Context(), key, "-", "+").Val(), info.LastGeneratedID, info.EntriesAdded,
				info.MaxDeletedEntryID)
		}
		all[key] = value + " " + rdb.PExpireTime(tb.Context(), key).Val().String()
	}
	return all
}
