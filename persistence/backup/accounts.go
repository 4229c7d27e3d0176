package backup

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// accountsAtOnce is how many accounts, or jobs of one, are read in one round trip, and keysAtOnce how many API keys.
const (
	accountsAtOnce = 100
	keysAtOnce     = 500
)

const (
	kindAccount kind = 23 // account, score, then field and value of each
	kindKeysOf  kind = 24 // account, then field and value of each
	kindAPIKey  kind = 25 // digest, then field and value of each
	kindOutbox  kind = 22 // member and score of each
)

var accounts = section{
	keys: []string{"{auth}:account:ACCOUNT", "{auth}:accounts", "{auth}:email:EMAIL", "{auth}:key:DIGEST",
		"{auth}:keys:ACCOUNT", "{auth}:readers:ACCOUNT", "{auth}:readerids:ACCOUNT", "{pNN}:job:JOB", "{pNN}:jobs:ACCOUNT",
		"{pNN}:jobs:ACCOUNT:STATUS", "{pNN}:jobs:ACCOUNT:ended", "{pNN}:jobqueue"},
	save: saveAccounts,
	records: []record{
		{kind: kindAccount, fields: 2, names: 1, load: loadAccount},
		{kind: kindKeysOf, fields: 1, names: 1,
			load: toHash(func(t *target, f fields) string { return t.APIKeysOfKey(f.account(0)) }, 1)},
		{kind: kindAPIKey, fields: 1, names: 1, load: loadKey},
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
		var readers []*redis.IntCmd
		var jobs []*redis.StringSliceCmd
		pipe := s.RDB.Pipeline()
		for _, z := range group {
			account := signal.AccountID(member(z))
			records = append(records, pipe.HGetAll(ctx, s.AccountKey(account)))
			keys = append(keys, pipe.HGetAll(ctx, s.APIKeysOfKey(account)))
			readers = append(readers, pipe.HLen(ctx, s.ReadersOfKey(account)))
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
			if readers[i].Val() > 0 {
				if err := saveReaders(ctx, s, account); err != nil {
					return err
				}
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

// saveKeys saves the API keys of an account that are no readers, by their names and ids.
func saveKeys(ctx context.Context, s *source, account signal.AccountID, index map[string]string) error {
	kept := map[string]string{}
	if err := saveKeyRecords(ctx, s, index, func(id, digest string, record map[string]string) {
		kept["id:"+id], kept["name:"+record["name"]] = digest, id
	}); err != nil || len(kept) == 0 {
		return err
	}
	return s.add(kindKeysOf, account, kept)
}

// saveReaders saves the readers of an account. Their indexes follow from the records.
func saveReaders(ctx context.Context, s *source, account signal.AccountID) error {
	index, err := s.RDB.HGetAll(ctx, s.ReadersOfKey(account)).Result()
	if err != nil {
		return err
	}
	return saveKeyRecords(ctx, s, index, func(string, string, map[string]string) {})
}

// saveKeyRecords saves the keys of an index and calls kept for each.
func saveKeyRecords(
	ctx context.Context, s *source, index map[string]string, kept func(id, digest string, record map[string]string),
) error {
	var ids []string
	for field := range index {
		if id, ok := strings.CutPrefix(field, "id:"); ok {
			ids = append(ids, id)
		}
	}
	for some := range slices.Chunk(ids, keysAtOnce) {
		pipe := s.RDB.Pipeline()
		var records []*redis.MapStringStringCmd
		for _, id := range some {
			records = append(records, pipe.HGetAll(ctx, s.APIKeyKey(index["id:"+id])))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, id := range some {
			digest, record := index["id:"+id], records[i].Val()
			if len(record) == 0 {
				continue // revoked since
			}
			kept(id, digest, record)
			if err := s.add(kindAPIKey, digest, record); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadKey writes the record of an API key, and the places of a reader in the indexes of its account.
func loadKey(ctx context.Context, t *target, f fields) error {
	digest, record := f.text(0), map[string]string{}
	for i := 1; i+1 < len(f); i += 2 {
		record[f.text(i)] = f.text(i + 1)
	}
	t.pipe.HSet(ctx, t.APIKeyKey(digest), f.args(1)...)
	account, id := signal.AccountID(record["account"]), record["id"]
	if record["view"] == "" || account == "" {
		return nil
	}
	t.pipe.HSet(ctx, t.ReadersOfKey(account), "name:"+record["name"], id, "id:"+id, digest)
	created, _ := strconv.ParseFloat(record["created"], 64)
	return t.pipe.ZAdd(ctx, t.ReaderIDsKey(account), redis.Z{Score: created, Member: id}).Err()
}

// outbox comes after the logs and before the accounts.
var outbox = section{
	keys: []string{"{auth}:outbox"},
	save: func(ctx context.Context, s *source) error { return s.addSortedSet(ctx, s.OutboxKey(), kindOutbox) },
	records: []record{
		{kind: kindOutbox, fields: 1, load: toSorted(func(t *target, _ fields) string { return t.OutboxKey() }, 0)},
	},
}
