package credentials

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/key_create.lua
var keyCreateText string

//go:embed scripts/key_revoke.lua
var keyRevokeText string

//go:embed scripts/key_used.lua
var keyUsedText string

var (
	keyCreateScript = redis.NewScript(keyCreateText)
	keyRevokeScript = redis.NewScript(keyRevokeText)
	keyUsedScript   = redis.NewScript(keyUsedText)
)

// CreateKey stores k under the digest of its secret. KindConflict, "name_taken":
// a key of the account that is not revoked has the name; "limit_reached": the
// account has most keys. KindNotFound: there is no such account.
func (s *Store) CreateKey(ctx context.Context, k credential.APIKey, secret credential.Digest, most int) error {
	args := append([]any{string(k.ID), secret.String(), k.Name, most}, encodeKey(k)...)
	created, err := s.Change(ctx, redisclient.ConfirmAuthKey(), keyCreateScript,
		[]string{redisclient.AccountKey(k.Account), redisclient.APIKeysOfKey(k.Account), redisclient.APIKeyKey(secret.String())}, args...)
	if err != nil {
		return credentialError("create API key", err)
	}
	switch created.Val() {
	case int64(0):
		return &signal.Error{Kind: signal.KindConflict, Code: "name_taken", Message: "an API key with this name exists"}
	case int64(-1):
		return signal.NotFound("account")
	case int64(-2):
		return &signal.Error{Kind: signal.KindConflict, Code: "limit_reached", Message: "the account has as many API keys as it may have"}
	}
	return nil
}

// KeyByDigest returns the key whose secret has the digest, also if it expired.
// KindNotFound.
func (s *Store) KeyByDigest(ctx context.Context, secret credential.Digest) (credential.APIKey, error) {
	fields, err := s.RDB.HGetAll(ctx, redisclient.APIKeyKey(secret.String())).Result()
	if err != nil {
		return credential.APIKey{}, credentialError("read API key", err)
	}
	if len(fields) == 0 {
		return credential.APIKey{}, signal.NotFound("API key")
	}
	return decodeKey(fields)
}

// Keys returns the keys of an account that are not revoked, newest first.
func (s *Store) Keys(ctx context.Context, account signal.AccountID) ([]credential.APIKey, error) {
	index, err := s.RDB.HGetAll(ctx, redisclient.APIKeysOfKey(account)).Result()
	if err != nil {
		return nil, credentialError("list API keys", err)
	}
	pipe := s.RDB.Pipeline()
	var records []*redis.MapStringStringCmd
	for field, digest := range index {
		if strings.HasPrefix(field, "id:") {
			records = append(records, pipe.HGetAll(ctx, redisclient.APIKeyKey(digest)))
		}
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, credentialError("read API keys", err)
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
	return keys, nil
}

// RevokeKey ends a key and frees its name. It returns the event that announces
// it, unsettled. KindNotFound: the account has no such key. The event with
// KindUnavailable: it has ended, but may come back if the master is lost.
func (s *Store) RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.KeyRevoked, Subject: string(id)}
	revoked, err := s.Change(ctx, redisclient.ConfirmAuthKey(), keyRevokeScript, []string{redisclient.APIKeysOfKey(account), redisclient.OutboxKey()},
		string(id), encodeAnnouncement(event), now.UnixMilli(), redisclient.APIKeyKey(""))
	switch {
	case redisclient.Stands(err) && revoked.Val() == int64(1):
		return []signal.Event{event}, credentialError("revoke API key", err)
	case err != nil:
		return nil, credentialError("revoke API key", err)
	}
	return nil, signal.NotFound("API key")
}

// NoteKeyUses stores when keys were last used, by the digests of their secrets.
func (s *Store) NoteKeyUses(ctx context.Context, uses map[credential.Digest]time.Time) error {
	const most = 500 // keys a call: the script must not hold Redis for long
	keys, args := make([]string, 0, most), make([]any, 0, most)
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		if err := keyUsedScript.Run(ctx, s.RDB, keys, args...).Err(); err != nil {
			return credentialError("note use of API keys", err)
		}
		keys, args = keys[:0], args[:0]
		return nil
	}
	for digest, at := range uses {
		keys = append(keys, redisclient.APIKeyKey(digest.String()))
		args = append(args, at.UnixMilli())
		if len(keys) == most {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
