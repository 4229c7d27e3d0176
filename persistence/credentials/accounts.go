package credentials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	accountCreateScript  = redisclient.Script(scripts, "account_create")
	accountDeleteScript  = redisclient.Script(scripts, removeSession, "account_delete")
	passwordSetScript    = redisclient.Script(scripts, removeSession, "password_set")
	passwordRehashScript = redisclient.Script(scripts, "password_rehash")
)

// AccountStore keeps accounts and their passwords.
type AccountStore struct {
	client
	keys     *KeyStore
	readers  *ReaderStore
	sessions *SessionStore
	outbox   *Outbox
}

// CreateAccount stores a with the hash of its password. KindConflict, "email_taken": another
// account has its email.
func (s *AccountStore) CreateAccount(ctx context.Context, a credential.Account, passwordHash string) error {
	record := encodeAccount(a, credential.Password{Hash: passwordHash, Version: 1})
	args := append([]any{string(a.ID), milliseconds(a.CreatedAt)}, record...)
	keys := []string{s.AccountKey(a.ID), s.EmailKey(a.Email), s.AccountsKey()}
	created, err := s.apply(ctx, accountCreateScript, keys, args...)
	if err != nil {
		return redisclient.Failed(err, "create account")
	}
	if created.Val() == int64(0) {
		return redisclient.Refused("email_taken", "an account with this email exists")
	}
	return nil
}

// AccountByID returns an account and its password. KindNotFound.
func (s *AccountStore) AccountByID(ctx context.Context, id signal.AccountID) (credential.Account, credential.Password, error) {
	fields, err := s.RDB.HGetAll(ctx, s.AccountKey(id)).Result()
	if err != nil {
		return credential.Account{}, credential.Password{}, redisclient.Failed(err, "read account")
	}
	if len(fields) == 0 {
		return credential.Account{}, credential.Password{}, signal.NotFound("account")
	}
	return decodeAccount(id, fields)
}

// AccountByEmail returns the account with the email, which is trimmed and in lower case.
// KindNotFound.
func (s *AccountStore) AccountByEmail(ctx context.Context, email string) (credential.Account, credential.Password, error) {
	id, err := s.RDB.Get(ctx, s.EmailKey(email)).Result()
	if errors.Is(err, redis.Nil) {
		return credential.Account{}, credential.Password{}, signal.NotFound("account")
	}
	if err != nil {
		return credential.Account{}, credential.Password{}, redisclient.Failed(err, "read email")
	}
	return s.AccountByID(ctx, signal.AccountID(id))
}

// Accounts returns at most limit accounts after the first offset ones, oldest first, and the
// number of all, once replicas have them.
func (s *AccountStore) Accounts(ctx context.Context, limit, offset int) ([]credential.Account, int, error) {
	pipe := s.RDB.Pipeline()
	total := pipe.ZCard(ctx, s.AccountsKey())
	ids := pipe.ZRange(ctx, s.AccountsKey(), int64(offset), int64(offset)+int64(limit)-1)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, redisclient.Failed(err, "list accounts")
	}
	pipe = s.RDB.Pipeline()
	records := make([]*redis.MapStringStringCmd, len(ids.Val()))
	for i, id := range ids.Val() {
		records[i] = pipe.HGetAll(ctx, s.AccountKey(signal.AccountID(id)))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, redisclient.Failed(err, "read accounts")
	}
	accounts := []credential.Account{}
	for i, r := range records {
		if len(r.Val()) == 0 {
			continue // deleted since
		}
		a, _, err := decodeAccount(signal.AccountID(ids.Val()[i]), r.Val())
		if err != nil {
			return nil, 0, err
		}
		accounts = append(accounts, a)
	}
	return accounts, int(total.Val()), s.Reads.Confirm(ctx, s.ConfirmAuthKey())
}

// SetPassword stores a new password if the present one has the given version (0: any), and ends
// all sessions of the account except keep. It returns the events that announce the ends, which
// are to be settled. KindNotFound; KindConflict if the password has another version. Events
// with KindUnavailable: those sessions have ended, but may come back if the master is lost.
func (s *AccountStore) SetPassword(ctx context.Context, id signal.AccountID, hash string, version int64,
	keep signal.SessionID, now time.Time) ([]signal.Event, error) {
	event := newEvent(id, signal.SessionEnded, "")
	before, after := announcementAround(event)
	keys := []string{s.AccountKey(id), s.SessionsOfKey(id), s.OutboxKey()}
	args := []any{hash, version, string(keep), now.UnixMilli(), before, after, sessionsAtOnce}
	var events []signal.Event
	for {
		sessions, err := s.sessions.oldestSessions(ctx, id, sessionsAtOnce)
		if err != nil {
			return events, err
		}
		answer, err := s.end(ctx, passwordSetScript, sessions.after(keys), sessions.afterArgs(args)...)
		if answer.Val() == int64(-4) {
			continue // one has begun meanwhile
		}
		if answer.Val() == int64(-3) {
			// The password is set together with the end of the last sessions, so that none
			// outlives it wherever this is interrupted.
			more, err := s.sessions.endOldest(ctx, event, sessionsAtOnce, keep, "", now)
			events = append(events, more...)
			if err != nil {
				return events, err
			}
			continue
		}
		ids, set := answer.Val().([]any)
		switch {
		case !redisclient.Stands(err) || err != nil && !set:
			return events, redisclient.Failed(err, "set password")
		case answer.Val() == int64(-1):
			return nil, signal.NotFound("account")
		case answer.Val() == int64(-2):
			return nil, redisclient.Refused("conflict", "the password was changed meanwhile")
		case !set:
			return nil, fmt.Errorf("set password: answer %v is not known", answer.Val())
		}
		return append(events, endedEvents(event, redisclient.Texts(ids))...), redisclient.Failed(err, "set password")
	}
}

// Rehash stores the same password under another hash, unless it was changed meanwhile.
func (s *AccountStore) Rehash(ctx context.Context, id signal.AccountID, from, to string) error {
	err := passwordRehashScript.Run(ctx, s.RDB, []string{s.AccountKey(id)}, from, to).Err()
	return redisclient.Failed(err, "rehash password")
}

// DeleteAccount removes an account with its keys and sessions and frees its email. It returns
// the events that announce it, which are to be settled. KindNotFound. Events with
// KindUnavailable: it is removed, but may come back if the master is lost.
func (s *AccountStore) DeleteAccount(ctx context.Context, id signal.AccountID, now time.Time) ([]signal.Event, error) {
	// The email never changes, so it may be read before.
	a, _, err := s.AccountByID(ctx, id)
	if signal.KindOf(err) == signal.KindNotFound {
		return nil, s.Durable.Confirmed(ctx, s.ConfirmAuthKey(), err)
	}
	if err != nil {
		return nil, err
	}
	event := newEvent(id, signal.AccountDeleted, "")
	keys := []string{s.AccountKey(id), s.AccountsKey(), s.EmailKey(a.Email),
		s.LockKey(credential.DigestOf(a.Email).String()), s.APIKeysOfKey(id), s.SessionsOfKey(id), s.OutboxKey(),
		s.ReadersOfKey(id), s.ReaderIDsKey(id)}
	args := []any{string(id), encodeAnnouncement(event), now.UnixMilli(), sessionsAtOnce}
	var events, readers []signal.Event
	for {
		digests, err := s.keys.keyDigests(ctx, id)
		if err != nil {
			return events, err
		}
		sessions, err := s.sessions.oldestSessions(ctx, id, sessionsAtOnce)
		if err != nil {
			return events, err
		}
		allKeys, allArgs := slices.Clone(keys), append(slices.Clone(args), len(digests))
		for _, digest := range digests {
			allKeys, allArgs = append(allKeys, s.APIKeyKey(digest)), append(allArgs, digest)
		}
		deleted, err := s.end(ctx, accountDeleteScript, sessions.after(allKeys), sessions.afterArgs(allArgs)...)
		switch {
		case deleted.Val() == int64(-2):
			continue // it got a key or a session meanwhile
		case deleted.Val() == int64(-3):
			ended, err := s.readers.endAll(ctx, id, now)
			if readers = append(readers, ended...); err != nil && len(ended) == 0 {
				return append(events, readers...), err
			}
			continue
		case redisclient.Stands(err) && deleted.Val() == int64(1):
			// The end of the account announces that of its readers. To announce theirs later as well does no harm.
			_ = s.outbox.Settle(ctx, readers)
			return append(events, event), redisclient.Failed(err, "delete account")
		case err != nil:
			return append(events, readers...), redisclient.Failed(err, "delete account")
		case deleted.Val() == int64(0):
			return nil, signal.NotFound("account")
		}
		ended := signal.Event{ID: event.ID, Account: id, Type: signal.SessionEnded}
		if _, err := s.sessions.endOldest(ctx, ended, sessionsAtOnce, "", noSubject, now); err != nil {
			return nil, err
		}
		events = []signal.Event{ended}
	}
}
