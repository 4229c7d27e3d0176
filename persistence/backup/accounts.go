package backup

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// accountsAtOnce is how many accounts, or jobs of one, are read in one round trip.
const accountsAtOnce = 100

const (
	kindAccount kind = 23 // account, score, then field and value of each
	kindKeysOf  kind = 24 // account, then field and value of each
	kindAPIKey  kind = 25 // digest, then field and value of each
	kindOutbox  kind = 22 // member and score of each
)

var accounts = section{
	keys: []string{"{auth}:account:ACCOUNT", "{auth}:accounts", "{auth}:email:EMAIL", "{auth}:key:DIGEST",
		"{auth}:keys:ACCOUNT", "{pNN}:job:JOB", "{pNN}:jobs:ACCOUNT", "{pNN}:jobs:ACCOUNT:STATUS", "{pNN}:jobs:ACCOUNT:ended",
		"{pNN}:jobqueue"},
	save: saveAccounts,
	records: []record{
		{kind: kindAccount, fields: 2, names: 1, load: loadAccount},
		{kind: kindKeysOf, fields: 1, names: 1,
			load: toHash(func(t *target, f fields) string { return t.APIKeysOfKey(f.account(0)) }, 1)},
		{kind: kindAPIKey, fields: 1, names: 1,
			load: toHash(func(t *target, f fields) string { return t.APIKeyKey(f.text(0)) }, 1)},
		{kind: kindJob, fields: 7, names: 2, load: loadJob},
	},
}

// saveAccounts saves accounts with their keys and jobs.
func saveAccounts(ctx context.Context, s *source) error {
	all, err := s.RDB.ZRangeWithScores(ctx, s.AccountsKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(all, accountsAtOnce) {
		var records, keys []*redis.MapStringStringCmd
		var jobs []*redis.StringSliceCmd
		pipe := s.RDB.Pipeline()
		for _, z := range group {
			account := signal.AccountID(member(z))
			records = append(records, pipe.HGetAll(ctx, s.AccountKey(account)))
			keys = append(keys, pipe.HGetAll(ctx, s.APIKeysOfKey(account)))
			jobs = append(jobs, pipe.ZRange(ctx, s.JobsOfKey(s.Partition(account), account), 0, -1))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, z := range group {
			if len(records[i].Val()) == 0 {
				continue // deleted since
			}
			account := signal.AccountID(member(z))
			if err := s.add(kindAccount, account, z.Score, records[i].Val()); err != nil {
				return err
			}
			if err := saveKeys(ctx, s, account, keys[i].Val()); err != nil {
				return err
			}
			if err := saveJobs(ctx, s, account, jobs[i].Val()); err != nil {
				return err
			}
		}
	}
	return nil
}

func loadAccount(ctx context.Context, t *target, f fields) error {
	account := f.account(0)
	t.accounts[account] = true
	t.pipe.ZAdd(ctx, t.AccountsKey(), redis.Z{Score: f.score(1), Member: f.text(0)})
	t.pipe.HSet(ctx, t.AccountKey(account), f.args(2)...)
	for i := 2; i+1 < len(f); i += 2 {
		if f.text(i) == "email" {
			t.pipe.Set(ctx, t.EmailKey(f.text(i+1)), f.text(0), 0)
		}
	}
	return nil
}

// saveKeys saves the API keys of an account, by their names and ids.
func saveKeys(ctx context.Context, s *source, account signal.AccountID, index map[string]string) error {
	kept := map[string]string{}
	for field, digest := range index {
		id, ok := strings.CutPrefix(field, "id:")
		if !ok {
			continue
		}
		record, err := s.RDB.HGetAll(ctx, s.APIKeyKey(digest)).Result()
		if err != nil {
			return err
		}
		if len(record) == 0 {
			continue // revoked since
		}
		kept[field], kept["name:"+record["name"]] = digest, id
		if err := s.add(kindAPIKey, digest, record); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return s.add(kindKeysOf, account, kept)
}

// outbox comes after the logs and before the accounts.
var outbox = section{
	keys: []string{"{auth}:outbox"},
	save: func(ctx context.Context, s *source) error { return s.addSortedSet(ctx, s.OutboxKey(), kindOutbox) },
	records: []record{
		{kind: kindOutbox, fields: 1, load: toSorted(func(t *target, _ fields) string { return t.OutboxKey() }, 0)},
	},
}
