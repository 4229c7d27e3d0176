package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// readerStore keeps readers by the digest of their secrets.
type readerStore interface {
	CreateReaders(ctx context.Context, readers []credential.APIKey, secrets []credential.Digest, max int) error
	Readers(ctx context.Context, account signal.AccountID, limit, offset int) ([]credential.APIKey, int, error)
	// LastNumber returns the highest number behind prefix and a hyphen in the names of an account's keys, or 0.
	LastNumber(ctx context.Context, account signal.AccountID, prefix string) (int64, error)
	ReadersNamed(ctx context.Context, account signal.AccountID, prefix string) ([]signal.KeyID, error)
	RevokeReaders(ctx context.Context, account signal.AccountID, ids []signal.KeyID, now time.Time) ([]signal.Event, error)
}

// Limits of readers.
const (
	MaxReadersAtOnce     = 500  // that one call creates; as many are revoked in one step
	MaxReaderConnections = 1000 // streams of one reader
	// DefaultReaderConnections is how many streams a reader may have if its creator does not say so.
	DefaultReaderConnections = 5
)

// Readers makes, lists and ends readers: API keys with a view.
type Readers struct {
	store     readerStore
	announcer *announcer
	audit     auditLog
	now       func() time.Time
	max       int
}

// NewReader is what readers that are created together have in common.
type NewReader struct {
	View           *signal.View
	Scopes         []string // nil: all that readers may have
	ExpiresIn      *int64   // seconds; nil: never
	MaxConnections int      // 0: DefaultReaderConnections
}

// key returns a reader without a name and a secret, and records faults.
func (n *NewReader) key(v *ValidationError, account signal.AccountID, now time.Time) credential.APIKey {
	k := credential.APIKey{Account: account, Scopes: checkScopes(v, n.Scopes, signal.ReaderScopes), CreatedAt: now,
		ExpiresAt: checkExpiry(v, now, n.ExpiresIn), View: n.View, MaxConnections: n.MaxConnections}
	if k.MaxConnections == 0 {
		k.MaxConnections = DefaultReaderConnections
	}
	return k
}

// CreateReader creates a reader and returns it with its secret, which is not stored. The errors are those of CreateKey.
func (r *Readers) CreateReader(ctx context.Context, account signal.AccountID, name string, n NewReader) (
	credential.APIKey, string, error) {
	var v ValidationError
	key := n.key(&v, account, r.now())
	name = checkKeyName(&v, "name", name, MaxKeyName)
	if err := v.orNil(); err != nil {
		return credential.APIKey{}, "", err
	}
	key, secret := withSecret(key, name)
	if err := r.store.CreateReaders(ctx, []credential.APIKey{key}, []credential.Digest{digest(secret)}, r.max); err != nil {
		return credential.APIKey{}, "", err
	}
	r.audit.write(ctx, slog.LevelInfo, "API key created", account, keyAttr(key.ID))
	return key, secret, nil
}

// batchTries is how often names are chosen again because another call has taken one of them meanwhile.
const batchTries = 5

// CreateReaders creates count readers, 1 to MaxReadersAtOnce, all of them or none, and returns them with their secrets. Their
// names are prefix, a hyphen and a number, which goes on behind those that keys of the account have. The errors are those of
// CreateKey, with "name_prefix" for "name".
func (r *Readers) CreateReaders(ctx context.Context, account signal.AccountID, prefix string, count int, n NewReader) (
	[]credential.APIKey, []string, error) {
	var v ValidationError
	key := n.key(&v, account, r.now())
	prefix = checkKeyName(&v, "name_prefix", prefix, MaxKeyPrefix)
	if err := v.orNil(); err != nil {
		return nil, nil, err
	}
	for try := 1; ; try++ {
		last, err := r.store.LastNumber(ctx, account, prefix)
		if err != nil {
			return nil, nil, err
		}
		keys, secrets, digests := make([]credential.APIKey, count), make([]string, count), make([]credential.Digest, count)
		for i := range keys {
			keys[i], secrets[i] = withSecret(key, fmt.Sprintf("%s-%d", prefix, last+int64(i)+1))
			digests[i] = digest(secrets[i])
		}
		err = r.store.CreateReaders(ctx, keys, digests, r.max)
		if e, ok := errors.AsType[*signal.Error](err); ok && e.Code == "name_taken" && try < batchTries {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		r.audit.write(ctx, slog.LevelInfo, "API keys created", account, slog.Int("keys", count),
			slog.String("first", string(keys[0].ID)), slog.String("last", string(keys[count-1].ID)))
		return keys, secrets, nil
	}
}

// ListReaders returns at most limit readers of the account that are not revoked, after the first offset ones, newest first,
// and the number of all.
func (r *Readers) ListReaders(ctx context.Context, account signal.AccountID, limit, offset int) (
	[]credential.APIKey, int, error) {
	return r.store.Readers(ctx, account, limit, offset)
}

// RevokeReaders revokes the readers whose names begin with prefix and returns their number. With an error, some of them may be
// revoked. Those that are created meanwhile may stay.
func (r *Readers) RevokeReaders(ctx context.Context, account signal.AccountID, prefix string) (revoked int, err error) {
	ids, err := r.store.ReadersNamed(ctx, account, prefix)
	if err != nil {
		return 0, err
	}
	defer func() {
		if revoked > 0 {
			r.audit.write(ctx, slog.LevelInfo, "API keys revoked", account, slog.Int("keys", revoked))
		}
	}()
	// Each step is announced before the next, so that the stream of ended credentials does not run ahead of the nodes.
	for some := range slices.Chunk(ids, MaxReadersAtOnce) {
		var events []signal.Event
		events, err = r.store.RevokeReaders(ctx, account, some, r.now())
		revoked += len(events)
		r.announcer.announce(ctx, events)
		if err != nil && len(events) == 0 {
			return revoked, err
		}
	}
	return revoked, err
}
