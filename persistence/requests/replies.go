package requests

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// Each Idempotency-Key has a key in Redis. It holds a lock while the first request is under way,
// and then the reply, "POSITION REPLY": the position is that of the signal in the reply.

//go:embed scripts
var scripts embed.FS

var replyReleaseScript = redisclient.Script(scripts, "release")

// replyLock is how long a request may be under way. If its process dies, the key is free then.
const replyLock = time.Minute

var (
	errReplyPending = &signal.Error{Kind: signal.KindConflict, Code: "idempotency_in_progress",
		Message: "a request with this Idempotency-Key is under way", RetryAfter: time.Second}
	errReplyMismatch = &signal.Error{Kind: signal.KindMismatch, Code: "idempotency_key_reused",
		Message: "this Idempotency-Key was used for another request"}
)

// Store keeps the replies to requests and the rates of callers.
type Store struct {
	*redisclient.Client
	signals *signals.Store // for replies that show a signal
}

// New returns the requests that c reads and writes.
func New(c *redisclient.Client, signals *signals.Store) *Store {
	return &Store{Client: c, signals: signals}
}

// Claim locks an Idempotency-Key for a request. If it returns nil, nil, the caller carries out
// the request and ends with Append or SaveReply of a reply, or with Release. Otherwise the reply
// is the one to the same request before. KindConflict: the same request is under way.
// KindMismatch: the key was used for another request.
func (s *Store) Claim(ctx context.Context, account signal.AccountID, k signal.ReplyKey) (*signal.Reply, error) {
	p := s.Partition(account)
	key := s.ReplyKey(p, account, codec.ReplyDigest(&k))
	// Twice, since the key may expire between the two commands.
	for range 2 {
		locked, err := s.RDB.SetNX(ctx, key, codec.AppendReplyLock(nil, &k), replyLock).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "lock reply")
		}
		if locked {
			return nil, nil
		}
		var get *redis.StringCmd
		err = s.Durably(ctx, s.ConfirmKey(p), func(pipe redis.Pipeliner) { get = pipe.Get(ctx, key) })
		if err != nil {
			return nil, redisclient.Failed(err, "read reply")
		}
		value, err := get.Bytes()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, redisclient.Failed(err, "read reply")
		}
		return s.keptReply(ctx, p, &k, value)
	}
	return nil, errReplyPending
}

// keptReply returns the result of Claim for a stored value.
func (s *Store) keptReply(ctx context.Context, p int, k *signal.ReplyKey, value []byte) (*signal.Reply, error) {
	r, at, err := codec.DecodeReply(value)
	if err != nil {
		return nil, err
	}
	if r.RequestHash != k.RequestHash && !slices.Contains(k.FormerHashes, r.RequestHash) {
		return nil, errReplyMismatch
	}
	if r.Status == 0 {
		return nil, errReplyPending
	}
	r.ReplyKey = *k
	if r.Body == nil && !r.Omitted {
		if r.Signal, err = s.signals.Record(ctx, p, at); err != nil {
			return nil, fmt.Errorf("read signal of reply: %w", err)
		}
	}
	return r, nil
}

// Release frees a key that Claim has locked, so that the request may be repeated. A stored reply
// stays.
func (s *Store) Release(ctx context.Context, account signal.AccountID, k signal.ReplyKey) error {
	key := s.ReplyKey(s.Partition(account), account, codec.ReplyDigest(&k))
	err := replyReleaseScript.Run(ctx, s.RDB, []string{key}, codec.AppendReplyLock(nil, &k)).Err()
	return redisclient.Failed(err, "release reply")
}

// SaveReply keeps a reply whose body is set or omitted, for requests that append no Change.
func (s *Store) SaveReply(ctx context.Context, account signal.AccountID, r *signal.Reply) error {
	if r.Body == nil && !r.Omitted {
		return errors.New("save reply: it has no body")
	}
	p := s.Partition(account)
	key := s.ReplyKey(p, account, codec.ReplyDigest(&r.ReplyKey))
	value := append([]byte(signal.Position{}.String()+" "), codec.AppendReply(nil, r)...)
	set := func(pipe redis.Pipeliner) { pipe.Set(ctx, key, value, eventlog.ReplyRetention) }
	return redisclient.Failed(s.Durably(ctx, s.ConfirmKey(p), set), "save reply")
}
