package backup

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// Of an account that is deleted while the backup is made, one kind of record may be all that the backup has.
func TestAccountDeletedMeanwhileIsErased(t *testing.T) {
	t.Parallel()
	from, to := redistest.New(t), redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: from.URL(), Partitions: 3})
	target := storetest.Client(t, redisclient.Options{URL: to.URL(), Partitions: 3})
	ctx, rdb, hour := t.Context(), c.RDB, c.Now().Add(time.Hour)
	log := storetest.Closing(t, eventlog.NewLog(eventlog.New(c), eventlog.LogOptions{}))
	seeds := map[string]func(a signal.AccountID, p int) error{
		"webhook": func(a signal.AccountID, p int) error {
			if _, err := deliveries.New(c, log).Settings.Register(ctx, storetest.Webhook(a), 1, nil); err != nil {
				return err
			}
			return from.Client().XTrimMaxLen(ctx, c.EventsKey(p), 0).Err()
		},
		"schedule": func(a signal.AccountID, p int) error {
			return rdb.HSet(ctx, c.SchedulesKey(p, a), "sch_1", "a schedule").Err()
		},
		"mail": func(a signal.AccountID, p int) error {
			mail := []byte{1} // as in TestSeldomKeysAreCopied
			for _, text := range []string{"webhook_failing", string(a), "wh_1", "https://example.com"} {
				mail = codec.AppendString(mail, text)
			}
			mail = append(codec.AppendString(append(mail, 0, 0), "refused"), 0)
			if err := rdb.ZAdd(ctx, c.MailsKey(p), storetest.DueAt(hour, "mail_"+string(a))).Err(); err != nil {
				return err
			}
			return rdb.HSet(ctx, c.MailRecordsKey(p), "mail_"+string(a), mail).Err()
		},
		"run": func(a signal.AccountID, p int) error {
			return rdb.ZAdd(ctx, c.RunsDueKey(p), storetest.DueAt(hour, string(a)+" run_1 trading")).Err()
		},
		"reply": func(a signal.AccountID, p int) error {
			return rdb.Set(ctx, c.ReplyKey(p, a, "digest"), "0-0 a reply", time.Hour).Err()
		},
		"salt": func(a signal.AccountID, p int) error {
			return rdb.HSet(ctx, c.LeafAccountsKey(p), string(a), "its salt").Err()
		},
		"kept": func(a signal.AccountID, p int) error {
			return rdb.HSet(ctx, c.SchedulesKey(p, a), "sch_1", "a schedule").Err()
		},
	}
	accounts := map[string]signal.AccountID{}
	for kind, seed := range seeds {
		a := signal.NewAccountID()
		accounts[kind] = a
		must(t, seed(a, c.Partition(a)))
		must(t, rdb.HSet(ctx, c.AccountKey(a), "email", kind+"@example.com").Err())
		must(t, rdb.ZAdd(ctx, c.AccountsKey(), redis.Z{Score: 1, Member: string(a)}).Err())
	}
	deleted := false
	c.RDB.AddHook(afterCommands(func(name string) {
		if name != "multi xinfo" || deleted {
			return
		}
		deleted = true
		for kind, a := range accounts {
			if kind != "kept" {
				from.Client().Del(ctx, c.AccountKey(a))
				from.Client().ZRem(ctx, c.AccountsKey(), string(a))
			}
		}
	}))
	var file bytes.Buffer
	if _, err := Save(ctx, c, &file, "test", nil); err != nil || !deleted {
		t.Fatal(err, deleted)
	}
	must(t, Begin(ctx, target))
	_, err := Load(ctx, target, &file)
	must(t, err)
	for kind, a := range accounts {
		state := target.RDB.HGet(ctx, target.EraseKey(target.Partition(a)), string(a)).Val()
		if kind == "kept" {
			if state != "" {
				t.Errorf("an account with a record is erased: %q", state)
			}
		} else if !strings.HasSuffix(state, " 0  ") {
			t.Errorf("a deleted account of which a %s was restored is not erased from the start: %q", kind, state)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
