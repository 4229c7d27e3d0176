package backup

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// saveOutbox comes after the logs and before the accounts.
func (s *saver) saveOutbox(ctx context.Context) error {
	outbox, err := s.RDB.ZRangeWithScores(ctx, s.OutboxKey(), 0, -1).Result()
	for _, z := range outbox {
		if err == nil {
			err = s.add(kindOutbox, texts(member(z), score(z))...)
		}
	}
	return err
}

// saveAccounts saves accounts with their keys and jobs.
func (s *saver) saveAccounts(ctx context.Context) error {
	accounts, err := s.RDB.ZRangeWithScores(ctx, s.AccountsKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(accounts, accountsAtOnce) {
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
			if err := s.add(kindAccount, pairs([]string{string(account), score(z)}, records[i].Val())...); err != nil {
				return err
			}
			if err := s.saveKeys(ctx, account, keys[i].Val()); err != nil {
				return err
			}
			if err := s.saveJobs(ctx, account, jobs[i].Val()); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveKeys saves the API keys of an account, by their names and ids.
func (s *saver) saveKeys(ctx context.Context, account signal.AccountID, index map[string]string) error {
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
		if err := s.add(kindAPIKey, pairs([]string{digest}, record)...); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return s.add(kindKeysOf, pairs([]string{string(account)}, kept)...)
}

func (l *loader) outbox(ctx context.Context, f [][]byte) error {
	l.pipe.ZAdd(ctx, l.OutboxKey(), redis.Z{Score: scoreOf(f[1]), Member: string(f[0])})
	return nil
}

func (l *loader) account(ctx context.Context, f [][]byte) error {
	account := signal.AccountID(f[0])
	l.accounts[account] = true
	l.pipe.ZAdd(ctx, l.AccountsKey(), redis.Z{Score: scoreOf(f[1]), Member: string(f[0])})
	l.pipe.HSet(ctx, l.AccountKey(account), values(f[2:])...)
	for i := 2; i+1 < len(f); i += 2 {
		if string(f[i]) == "email" {
			l.pipe.Set(ctx, l.EmailKey(string(f[i+1])), string(f[0]), 0)
		}
	}
	return nil
}

func (l *loader) keysOf(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.APIKeysOfKey(signal.AccountID(f[0])), values(f[1:])...)
	return nil
}

func (l *loader) apiKey(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.APIKeyKey(string(f[0])), values(f[1:])...)
	return nil
}
