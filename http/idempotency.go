package http

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Replies stores the first successful answers to requests with an Idempotency-Key. The
// change that a run causes stores its answer; see signal.Change.
type Replies interface {
	// Claim takes a key for a new request. It returns the stored answer, or nil if this
	// request is the first. The error is KindConflict if the first is still running, and
	// KindMismatch if it was another request.
	Claim(ctx context.Context, account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error)
	// Release frees a claimed key whose request was not successful.
	Release(ctx context.Context, account signal.AccountID, key signal.ReplyKey) error
	// NewClaim returns the claim of a new request: ReplyKey.Claim.
	NewClaim() string
	// Hold keeps a claimed key until end is called, however long its request takes.
	Hold(account signal.AccountID, key signal.ReplyKey) (end func())
	// SaveReply stores an answer that no change has stored.
	SaveReply(ctx context.Context, account signal.AccountID, r *signal.Reply) error
}

// Sealer encrypts secrets for the store. A secret that was sealed for one purpose cannot be
// opened for another. See keyring.Ring.
type Sealer interface {
	Seal(plain []byte, purpose string) []byte
	Open(sealed []byte, purpose string) ([]byte, error)
	// Digests returns at least one keyed digest of data for a purpose: by the present key,
	// then by former ones.
	Digests(data []byte, purpose string) [][32]byte
}

const (
	keyHeader    = "Idempotency-Key"
	maxKeyLength = 255
	// maxKeptReply is the size, in bytes, above which an answer that can be made again is
	// stored without its body.
	maxKeptReply = 1 << 10
	// releaseTimeout limits freeing a key. If that fails, the claim expires.
	releaseTimeout = 2 * time.Second
)

// Idempotency answers repeated requests with the answer to the first one.
type Idempotency struct {
	replies Replies
	sealer  Sealer
	log     *slog.Logger
}

// NewIdempotency returns the answers that replies keeps; sealer encrypts those that hold a secret.
func NewIdempotency(replies Replies, sealer Sealer, log *slog.Logger) *Idempotency {
	return &Idempotency{replies, sealer, log.With("component", "http")}
}

// idempotencyKey returns the Idempotency-Key of a request and whether it has one.
func idempotencyKey(h http.Header) (key string, given bool) {
	values := h[keyHeader]
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// checkIdempotencyKey records the faults of a key, which must be 1 to 255 printable
// characters of ASCII.
func checkIdempotencyKey(h http.Header, f *request.Faults) {
	key, given := idempotencyKey(h)
	switch {
	case !given:
	case len(h[keyHeader]) > 1:
		f.Add(request.InHeader, keyHeader, request.CodeDuplicate, "is given more than once")
	case key == "":
		f.Add(request.InHeader, keyHeader, request.CodeTooShort, request.NotEmpty)
	case len(key) > maxKeyLength:
		f.Add(request.InHeader, keyHeader, request.CodeTooLong, request.AtMost(maxKeyLength))
	default:
		for i := range len(key) {
			if key[i] < ' ' || key[i] > '~' {
				f.Add(request.InHeader, keyHeader, request.CodeFormat, "must be printable ASCII")
				return
			}
		}
	}
}

// replayOr answers with the stored reply to key, or else by first. again returns the body of
// a reply that was stored without it.
func (i *Idempotency) replayOr(c *call, key signal.ReplyKey, first func() error, again answerer) error {
	kept, err := i.first(c.r.Context(), c.principal.Account, key, first)
	if kept != nil {
		return i.replay(c, kept, again)
	}
	return err
}

// first returns the stored reply to key, or else runs f, which stores it. A failure of f frees the key, but does
// not remove a reply that was stored nevertheless.
func (i *Idempotency) first(
	ctx context.Context, account signal.AccountID, key signal.ReplyKey, f func() error,
) (*signal.Reply, error) {
	kept, err := i.replies.Claim(ctx, account, key)
	if err != nil || kept != nil {
		return kept, err
	}
	defer i.replies.Hold(account, key)()
	succeeded := false
	defer func() { // also when first panics
		if succeeded {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := i.replies.Release(ctx, account, key); err != nil {
			i.log.Warn("idempotency key not released", "key", key.Key, "err", err)
		}
	}()
	err = f()
	succeeded = err == nil
	return nil, err
}

// answerer returns the body of an answer.
type answerer func(ctx context.Context) ([]byte, error)

// replay repeats an answer.
func (i *Idempotency) replay(c *call, kept *signal.Reply, again answerer) error {
	body := kept.Body
	if kept.Omitted && again != nil {
		var err error
		if body, err = again(c.r.Context()); err != nil {
			return err
		}
	}
	h := c.Header()
	for name, value := range kept.Header {
		h.Set(name, value)
	}
	h.Set("Idempotency-Replayed", "true")
	if body == nil {
		body = replyBody(kept)
	}
	if c.operation.secret {
		var err error
		if body, err = i.sealer.Open(body, replyPurpose(c, kept.Key)); err != nil {
			return fmt.Errorf("open kept answer: %w", err)
		}
	}
	return c.json(kept.Status, body)
}

// replyBody returns the body of a stored answer.
func replyBody(kept *signal.Reply) []byte {
	if kept.Body == nil && kept.Signal != nil {
		return appendSignal(nil, kept.Signal)
	}
	return kept.Body
}

// key returns the key under which the answer is stored, or nil without an
// Idempotency-Key.
func (i *Idempotency) key(c *call, body []byte) *signal.ReplyKey {
	key, given := idempotencyKey(c.r.Header)
	if !given {
		return nil
	}
	// The digest is keyed, since it is stored for a day and the body may hold a secret.
	digests := i.sealer.Digests(body, "request "+replyPurpose(c, key))
	return &signal.ReplyKey{
		Method:       c.r.Method,
		Path:         c.r.URL.Path,
		Key:          key,
		RequestHash:  digests[0],
		FormerHashes: digests[1:],
		Claim:        i.replies.NewClaim(),
	}
}

// do answers 200 with the result of action. Of several requests with the same Idempotency-Key
// only the first runs action, and all get its answer. Unless again is nil, it makes an answer
// larger than maxKeptReply again. action goes on if the client leaves.
func (i *Idempotency) do(c *call, body []byte, action, again answerer) error {
	ctx := context.WithoutCancel(c.r.Context())
	key := i.key(c, body)
	first := func() error {
		answer, err := action(ctx)
		if err != nil {
			return err
		}
		if key != nil {
			i.keep(ctx, c, *key, answer, again != nil && len(answer) > maxKeptReply)
		}
		return c.json(http.StatusOK, answer)
	}
	if key == nil {
		return first()
	}
	return i.replayOr(c, *key, first, again)
}

// doEmpty is do for a request whose body has no members.
func (i *Idempotency) doEmpty(c *call, action, again answerer) error {
	checkIdempotencyKey(c.r.Header, &c.faults)
	body, err := c.empty()
	if err != nil {
		return err
	}
	return i.do(c, body, action, again)
}

// reply returns an answer as it is stored: encrypted if it holds a secret, and without its
// body if omit is set.
func (i *Idempotency) reply(c *call, key signal.ReplyKey, answer []byte, omit bool) *signal.Reply {
	r := &signal.Reply{ReplyKey: key, Status: http.StatusOK, Omitted: omit}
	switch {
	case omit:
	case c.operation.secret:
		r.Body = i.sealer.Seal(answer, replyPurpose(c, key.Key))
	default:
		r.Body = answer
	}
	return r
}

// keep stores an answer for repeated requests. If that fails, they are refused until the
// claim expires; the first request gets its answer nevertheless.
func (i *Idempotency) keep(ctx context.Context, c *call, key signal.ReplyKey, answer []byte, omit bool) {
	r := i.reply(c, key, answer, omit)
	if err := i.replies.SaveReply(ctx, c.principal.Account, r); err != nil {
		i.log.Warn("answer not kept", "request", c.id, "err", err)
	}
}

// replyPurpose returns the purpose for which an answer with a secret is sealed.
func replyPurpose(c *call, key string) string { return string(c.principal.Account) + " " + key }
