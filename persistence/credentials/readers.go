package credentials

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// ReaderStore keeps readers: API keys with a view, of which an account may have very many.
type ReaderStore struct{ client }

// MaxReadersAtOnce is how many readers one call creates or revokes at most.
const MaxReadersAtOnce = keysAtOnce

// CreateReaders stores readers of one account under the digests of their secrets, all of them or none. They differ in ID,
// Name and Prefix only. KindConflict, "name_taken": a key of the account that is not revoked has one of the names;
// "limit_reached": the account would have more than maxReaders. KindNotFound: there is no such account.
func (s *ReaderStore) CreateReaders(
	ctx context.Context, readers []credential.APIKey, secrets []credential.Digest, maxReaders int,
) error {
	return s.createKeys(ctx, readers, secrets, maxReaders)
}

// Readers returns at most limit readers of an account that are not revoked, after the first offset ones, newest first,
// and the number of all, once replicas have them.
func (s *ReaderStore) Readers(ctx context.Context, account signal.AccountID, limit, offset int) (
	[]credential.APIKey, int, error) {
	pipe := s.RDB.Pipeline()
	total := pipe.ZCard(ctx, s.ReaderIDsKey(account))
	ids := pipe.ZRevRange(ctx, s.ReaderIDsKey(account), int64(offset), int64(offset)+int64(limit)-1)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, redisclient.Failed(err, "list readers")
	}
	digests, err := s.digestsOf(ctx, s.ReadersOfKey(account), keyIDs(ids.Val()))
	if err != nil {
		return nil, 0, err
	}
	readers, err := s.keysByDigest(ctx, digests)
	if err != nil {
		return nil, 0, err
	}
	return readers, int(total.Val()), s.Reads.Confirm(ctx, s.ConfirmAuthKey())
}

func keyIDs(texts []string) []signal.KeyID {
	ids := make([]signal.KeyID, len(texts))
	for i, text := range texts {
		ids[i] = signal.KeyID(text)
	}
	return ids
}

// LastNumber returns the highest number behind prefix and a hyphen in the names of an account's keys of both kinds, or 0.
func (s *ReaderStore) LastNumber(ctx context.Context, account signal.AccountID, prefix string) (int64, error) {
	var last int64
	for _, index := range []string{s.APIKeysOfKey(account), s.ReadersOfKey(account)} {
		named, err := s.named(ctx, index, prefix+"-")
		if err != nil {
			return 0, err
		}
		for name := range named {
			digits := name[len(prefix)+1:]
			n, err := strconv.ParseInt(digits, 10, 64)
			if err == nil && n < maxNumber && strconv.FormatInt(n, 10) == digits {
				last = max(last, n)
			}
		}
	}
	return last, nil
}

// maxNumber is above every number that LastNumber reads: a name may end with other digits.
const maxNumber = 1_000_000_000_000

// ReadersNamed returns the readers of an account whose names begin with prefix.
func (s *ReaderStore) ReadersNamed(ctx context.Context, account signal.AccountID, prefix string) ([]signal.KeyID, error) {
	named, err := s.named(ctx, s.ReadersOfKey(account), prefix)
	return slices.Sorted(maps.Values(named)), err
}

// scannedAtOnce is how many fields of an index Redis looks at in one step.
const scannedAtOnce = 1000

// named returns the keys of an index whose names begin with prefix, by these names.
func (s *ReaderStore) named(ctx context.Context, index, prefix string) (map[string]signal.KeyID, error) {
	const field = "name:"
	pattern := field + strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(prefix) + "*"
	named := map[string]signal.KeyID{}
	for cursor := uint64(0); ; {
		pairs, next, err := s.RDB.HScan(ctx, index, cursor, pattern, scannedAtOnce).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "find API keys")
		}
		for pair := range slices.Chunk(pairs, 2) {
			named[strings.TrimPrefix(pair[0], field)] = signal.KeyID(pair[1])
		}
		if cursor = next; cursor == 0 {
			return named, nil
		}
	}
}

// RevokeReaders ends at most MaxReadersAtOnce readers of an account and frees their names. It returns the events that
// announce it, which are to be settled: those of the readers that have ended now. Events with KindUnavailable: the readers
// have ended, but may come back if the master is lost.
func (s *ReaderStore) RevokeReaders(ctx context.Context, account signal.AccountID, ids []signal.KeyID, now time.Time) (
	[]signal.Event, error) {
	return s.revokeKeys(ctx, account, s.ReadersOfKey(account), ids, now)
}

// endAll ends all readers of an account and returns the events that announce it. The error is that of the last step: replicas
// that have the last write have all before it.
func (s *ReaderStore) endAll(ctx context.Context, account signal.AccountID, now time.Time) (ended []signal.Event, err error) {
	for {
		ids, e := s.RDB.ZRange(ctx, s.ReaderIDsKey(account), 0, MaxReadersAtOnce-1).Result()
		if e != nil {
			return ended, redisclient.Failed(e, "list readers")
		}
		if len(ids) == 0 {
			return ended, err
		}
		var events []signal.Event
		if events, err = s.RevokeReaders(ctx, account, keyIDs(ids), now); err != nil && len(events) == 0 {
			return ended, err
		}
		ended = append(ended, events...)
	}
}
