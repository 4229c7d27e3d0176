package credentials

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	keysCreateScript = redisclient.Script(scripts, "keys_create")
	keysRevokeScript = redisclient.Script(scripts, "keys_revoke")
	keyUsedScript    = redisclient.Script(scripts, "key_used")
)

// keysAtOnce is how many keys one script creates, revokes or marks as used at most. Redis does nothing else meanwhile.
const keysAtOnce = 500

// KeyStore keeps API keys.
type KeyStore struct{ client }

// CreateKey stores k, which is no reader, under the digest of its secret. KindConflict, "name_taken": a key of the
// account that is not revoked has the name; "limit_reached": the account has maxKeys keys that are no readers.
// KindNotFound: there is no such account.
func (s *KeyStore) CreateKey(ctx context.Context, k credential.APIKey, secret credential.Digest, maxKeys int) error {
	return s.createKeys(ctx, []credential.APIKey{k}, []credential.Digest{secret}, maxKeys)
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

// Keys returns the keys of an account that are neither revoked nor readers, newest first, once replicas have them.
func (s *KeyStore) Keys(ctx context.Context, account signal.AccountID) ([]credential.APIKey, error) {
	digests, err := s.keyDigests(ctx, account)
	if err != nil {
		return nil, err
	}
	keys, err := s.keysByDigest(ctx, digests)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(keys, func(a, b credential.APIKey) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return keys, s.Reads.Confirm(ctx, s.ConfirmAuthKey())
}

// keyDigests returns the digests of the secrets of an account's keys that are no readers.
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

// RevokeKey ends a key, which may be a reader, and frees its name. It returns the event that announces it, which is to be
// settled. KindNotFound: the account has no such key. The event with KindUnavailable: the key has ended, but may come
// back if the master is lost.
func (s *KeyStore) RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID, now time.Time) (
	[]signal.Event, error) {
	// A reader's kind never changes, so it may be looked up before.
	reader, err := s.RDB.HExists(ctx, s.ReadersOfKey(account), "id:"+string(id)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read API key")
	}
	index := s.APIKeysOfKey(account)
	if reader {
		index = s.ReadersOfKey(account)
	}
	events, err := s.revokeKeys(ctx, account, index, []signal.KeyID{id}, now)
	if len(events) == 0 && err == nil {
		return nil, signal.NotFound("API key")
	}
	return events, err
}

// NoteKeyUses stores when keys were last used, by the digests of their secrets.
func (s *KeyStore) NoteKeyUses(ctx context.Context, uses map[credential.Digest]time.Time) error {
	for digests := range slices.Chunk(slices.Collect(maps.Keys(uses)), keysAtOnce) {
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
