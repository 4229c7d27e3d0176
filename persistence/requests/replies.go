package requests

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// Each Idempotency-Key has a key in Redis. It holds a lock while the first request is under way,
// and then the reply, "POSITION REPLY": the position is that of the signal in the reply.
//
// A lock names its process. It is void when that process is no longer live, and the next request
// replaces it. If the former one is alive nevertheless, its change and its reply are refused,
// because its lock is gone. What it has done without a Change is then done twice.

//go:embed scripts
var scripts embed.FS

var (
	replyReleaseScript = redisclient.Script(scripts, "release")
	replyReplaceScript = redisclient.Script(scripts, "replace")
	replySaveScript    = redisclient.Script(scripts, "save")
)

const (
	// replyLock is how long a lock lasts unless it is held. Until then a key stays locked whose lock could not be
	// released, or was made although no answer to it arrived: not longer than the lock of a process that has ended, with the
	// default of the setting lease.
	replyLock = 5 * time.Second
	// holdEvery is the time between two renewals of a lock that is held.
	holdEvery = replyLock / 5
)

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
	claims  atomic.Uint64  // the last number of a claim
	hold    time.Duration  // between two renewals of a held lock; tests make it shorter
}

// New returns the requests that c reads and writes.
func New(c *redisclient.Client, signals *signals.Store) *Store {
	return &Store{Client: c, signals: signals, hold: holdEvery}
}

// NewClaim returns the claim of a new request, or "" if this process is no node.
func (s *Store) NewClaim() string {
	process := s.Process()
	if process == "" {
		return ""
	}
	return process + " " + strconv.FormatUint(s.claims.Add(1), 10)
}

// Claim locks an Idempotency-Key for a request. If it returns nil, nil, the caller carries out
// the request and ends with Append or SaveReply of a reply, or with Release. Otherwise the reply
// is the one to the same request before. KindConflict: the same request is under way.
// KindMismatch: the key was used for another request.
func (s *Store) Claim(ctx context.Context, account signal.AccountID, k signal.ReplyKey) (*signal.Reply, error) {
	p := s.Partition(account)
	key := s.ReplyKey(p, account, codec.ReplyDigest(&k))
	lock := codec.AppendReplyLock(nil, &k)
	// Twice, since the key may expire or change between the commands.
	for range 2 {
		locked, err := s.RDB.SetNX(ctx, key, lock, replyLock).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "lock reply")
		}
		if locked {
			return nil, nil
		}
		var get *redis.StringCmd
		err = s.Durable.Send(ctx, s.ConfirmKey(p), func(pipe redis.Pipeliner) { get = pipe.Get(ctx, key) })
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
		r, at, err := codec.DecodeReply(value)
		if err != nil {
			return nil, err
		}
		if r.Status != 0 || !s.void(ctx, r.Claim) {
			return s.keptReply(ctx, p, &k, r, at)
		}
		replaced, err := replyReplaceScript.Run(ctx, s.RDB, []string{key}, value, lock, replyLock.Milliseconds()).Int()
		if err != nil {
			return nil, redisclient.Failed(err, "replace lock of reply")
		}
		if replaced == 1 {
			return nil, nil
		}
	}
	return nil, errReplyPending
}

// void reports whether the process of a claim is known to have ended.
func (s *Store) void(ctx context.Context, claim string) bool {
	process := strings.Fields(claim)
	if len(process) < 2 {
		return false // of an earlier build
	}
	live, err := s.signals.Nodes.ProcessLive(ctx, process[0], process[1])
	return err == nil && !live
}

// Hold keeps the lock of a claimed key until end is called, so that it outlasts replyLock.
func (s *Store) Hold(account signal.AccountID, k signal.ReplyKey) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	key := s.ReplyKey(s.Partition(account), account, codec.ReplyDigest(&k))
	lock := codec.AppendReplyLock(nil, &k)
	var renewal *time.Timer
	var mu sync.Mutex // until renewal is set
	mu.Lock()
	defer mu.Unlock()
	renewal = time.AfterFunc(s.hold, func() {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			// After a failure the next renewal is in time, or the lock is lost.
			panics.Guard(s.Log, panics.Log, func() {
				_ = replyReplaceScript.Run(ctx, s.RDB, []string{key}, lock, lock, replyLock.Milliseconds()).Err()
			})
			renewal.Reset(s.hold)
		}
	})
	return func() {
		cancel()
		renewal.Stop()
	}
}

// keptReply returns the result of Claim for a stored reply or lock.
func (s *Store) keptReply(
	ctx context.Context, p int, k *signal.ReplyKey, r *signal.Reply, at signal.Position,
) (*signal.Reply, error) {
	var err error
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
// KindConflict: another request has taken the key.
func (s *Store) SaveReply(ctx context.Context, account signal.AccountID, r *signal.Reply) error {
	if r.Body == nil && !r.Omitted {
		return errors.New("save reply: it has no body")
	}
	p := s.Partition(account)
	key := s.ReplyKey(p, account, codec.ReplyDigest(&r.ReplyKey))
	value := append([]byte(signal.Position{}.String()+" "), codec.AppendReply(nil, r)...)
	lock := codec.AppendReplyLock(nil, &r.ReplyKey)
	saved, err := s.Durable.Change(ctx, s.ConfirmKey(p), replySaveScript, []string{key}, lock, value,
		eventlog.ReplyRetention.Milliseconds())
	if err == nil && saved.Val() == int64(0) {
		return eventlog.ErrClaimLost
	}
	return redisclient.Failed(err, "save reply")
}
