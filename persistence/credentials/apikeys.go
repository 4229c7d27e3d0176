package credentials

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	keyCreateScript = redisclient.Script(scripts, "key_create")
	keyRevokeScript = redisclient.Script(scripts, "key_revoke")
	keyUsedScript   = redisclient.Script(scripts, "key_used")
)

// KeyStore keeps API keys.
type KeyStore struct{ client }

// CreateKey stores k under the digest of its secret. KindConflict, "name_taken": a key of the
// account that is not revoked has the name; "limit_reached": the account has maxKeys keys.
// KindNotFound: there is no such account.
func (s *KeyStore) CreateKey(ctx context.Context, k credential.APIKey, secret credential.Digest, maxKeys int) error {
	args := append([]any{string(k.ID), secret.String(), k.Name, maxKeys}, encodeKey(k)...)
	keys := []string{s.AccountKey(k.Account), s.APIKeysOfKey(k.Account),
		s.APIKeyKey(secret.String())}
	created, err := s.apply(ctx, keyCreateScript, keys, args...)
	if err != nil {
		return redisclient.Failed(err, "create API key")
	}
	switch created.Val() {
	case int64(0):
		return redisclient.Refused("name_taken", "an API key with this name exists")
	case int64(-1):
		return signal.NotFound("account")
	case int64(-2):
		return redisclient.Refused("limit_reached", "the account has as many API keys as it may have")
	}
	return nil
}

// KeyByDigest returns the key whose secret has the digest, even if it has expired. KindNotFound.
func (s *KeyStore) KeyByDigest(ctx context.Context, secret credential.Digest) (credential.APIKey, error) {
	fields, err := s.RDB.HGetAll(ctx, s.APIKeyKey(secret.String())).Result()
	if err != nil {
		return credential.APIKey{}, redisclient.Failed(err, "read API key")
	}
	if len(fields) == 0 {
		return credential.APIKey{}, signal.NotFound("API key")
	}
	return decodeKey(fields)
}

// Keys returns the keys of an account that are not revoked, newest first, once replicas have them.
func (s *KeyStore) Keys(ctx context.Context, account signal.AccountID) ([]credential.APIKey, error) {
	digests, err := s.keyDigests(ctx, account)
	if err != nil {
		return nil, err
	}
	pipe := s.RDB.Pipeline()
	var records []*redis.MapStringStringCmd
	for _, digest := range digests {
		records = append(records, pipe.HGetAll(ctx, s.APIKeyKey(digest)))
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
	slices.SortFunc(keys, func(a, b credential.APIKey) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return keys, s.Reads.Confirm(ctx, s.ConfirmAuthKey())
}

// keyDigests returns the digests of the secrets of an account's keys.
func (s *KeyStore) keyDigests(ctx context.Context, account signal.AccountID) ([]string, error) {
	index, err := s.RDB.HGetAll(ctx, s.APIKeysOfKey(account)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "list API keys")
	}
	var digests []string
	for field, digest := range index {
		if strings.HasPrefix(field, "id:") {
			digests = append(digests, digest)
		}
	}
	return digests, nil
}

// RevokeKey ends a key and frees its name. It returns the event that announces it, which is to be
// settled. KindNotFound: the account has no such key. The event with KindUnavailable: the key
// has ended, but may come back if the master is lost.
func (s *KeyStore) RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID, now time.Time) (
	[]signal.Event, error) {
	event := newEvent(account, signal.KeyRevoked, string(id))
	// An id never gets another key, so the digest may be read before.
	digest, err := s.RDB.HGet(ctx, s.APIKeysOfKey(account), "id:"+string(id)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, redisclient.Failed(err, "read API key")
	}
	keys := []string{s.APIKeysOfKey(account), s.OutboxKey(), s.APIKeyKey(digest)}
	revoked, err := s.end(ctx, keyRevokeScript, keys, string(id), encodeAnnouncement(event), now.UnixMilli(), digest)
	switch {
	case redisclient.Stands(err) && revoked.Val() == int64(1):
		return []signal.Event{event}, redisclient.Failed(err, "revoke API key")
	case err != nil:
		return nil, redisclient.Failed(err, "revoke API key")
	}
	return nil, signal.NotFound("API key")
}

// NoteKeyUses stores when keys were last used, by the digests of their secrets.
func (s *KeyStore) NoteKeyUses(ctx context.Context, uses map[credential.Digest]time.Time) error {
	const limit = 500 // keys a call: the script must not hold Redis for long
	for digests := range slices.Chunk(slices.Collect(maps.Keys(uses)), limit) {
		var keys []string
		var args []any
		for _, digest := range digests {
			keys = append(keys, s.APIKeyKey(digest.String()))
			args = append(args, uses[digest].UnixMilli())
		}
		if err := keyUsedScript.Run(ctx, s.RDB, keys, args...).Err(); err != nil {
			return redisclient.Failed(err, "note use of API keys")
		}
	}
	return nil
}
