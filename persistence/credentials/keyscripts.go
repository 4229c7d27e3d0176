package credentials

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// The keys of an account are of two kinds, readers and others, which have an index and a limit each. Their names are in one
// space. What both need stands here.

// createKeys stores keys of one kind under the digests of their secrets, all of them or none. They differ in ID, Name and
// Prefix only. The errors are those of CreateKey.
func (c client) createKeys(
	ctx context.Context, keys []credential.APIKey, secrets []credential.Digest, maxKeys int,
) error {
	first := keys[0]
	own, other, created := c.APIKeysOfKey(first.Account), c.ReadersOfKey(first.Account), ""
	if first.View != nil {
		own, other, created = other, own, strconv.FormatInt(milliseconds(first.CreatedAt), 10)
	}
	names := []string{c.AccountKey(first.Account), own, other, c.ReaderIDsKey(first.Account)}
	shared := encodeKey(first)
	args := append([]any{maxKeys, created, len(shared)}, shared...)
	for i, k := range keys {
		names = append(names, c.APIKeyKey(secrets[i].String()))
		args = append(args, string(k.ID), secrets[i].String(), k.Name, k.Prefix)
	}
	answer, err := c.apply(ctx, keysCreateScript, names, args...)
	if err != nil {
		return redisclient.Failed(err, "create API keys")
	}
	switch answer.Val() {
	case int64(0):
		return redisclient.Refused("name_taken", "an API key with this name exists")
	case int64(-1):
		return signal.NotFound("account")
	case int64(-2):
		if first.View != nil {
			return redisclient.Refused("limit_reached", "the account would have more readers than it may have")
		}
		return redisclient.Refused("limit_reached", "the account has as many API keys as it may have")
	}
	return nil
}

// keysByDigest returns the keys whose secrets have the digests, without those that are revoked.
func (c client) keysByDigest(ctx context.Context, digests []string) ([]credential.APIKey, error) {
	pipe := c.RDB.Pipeline()
	records := make([]*redis.MapStringStringCmd, len(digests))
	for i, digest := range digests {
		records[i] = pipe.HGetAll(ctx, c.APIKeyKey(digest))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "read API keys")
	}
	keys := []credential.APIKey{}
	for _, r := range records {
		if len(r.Val()) == 0 {
			continue // revoked since
		}
		k, err := decodeKey(r.Val())
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// digestsOf returns the digests of the secrets of keys in an index, "" for those that it does not have.
func (c client) digestsOf(ctx context.Context, index string, ids []signal.KeyID) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	fields := make([]string, len(ids))
	for i, id := range ids {
		fields[i] = "id:" + string(id)
	}
	values, err := c.RDB.HMGet(ctx, index, fields...).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read API keys")
	}
	return redisclient.Texts(values), nil
}

// revokeKeys ends keys of an index and frees their names. It returns the events that announce it, which are to be settled: those
// of the keys that have ended now. Events with KindUnavailable: the keys have ended, but may come back if the master is lost.
func (c client) revokeKeys(
	ctx context.Context, account signal.AccountID, index string, ids []signal.KeyID, now time.Time,
) ([]signal.Event, error) {
	// An id never gets another key, so the digests may be read before.
	digests, err := c.digestsOf(ctx, index, ids)
	if err != nil {
		return nil, err
	}
	event := newEvent(account, signal.KeyRevoked, "")
	before, after := announcementAround(event)
	keys := []string{index, c.ReaderIDsKey(account), c.OutboxKey()}
	args := []any{now.UnixMilli(), before, after}
	for i, id := range ids {
		keys, args = append(keys, c.APIKeyKey(digests[i])), append(args, string(id), digests[i])
	}
	revoked, err := c.end(ctx, keysRevokeScript, keys, args...)
	if !redisclient.Stands(err) {
		return nil, redisclient.Failed(err, "revoke API keys")
	}
	return endedEvents(event, redisclient.Texts(revoked.Val())), redisclient.Failed(err, "revoke API keys")
}
