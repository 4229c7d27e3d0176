package http

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Replies keeps the first successful answers to requests with an Idempotency-Key.
// The change that a run causes stores its answer; see signal.Change.
type Replies interface {
	// Claim takes a key for a request that begins. It returns the answer that is
	// kept for it, or nil if this request is the first. The error is KindConflict
	// if the first is still running, and KindMismatch if it was another request.
	Claim(ctx context.Context, account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error)
	// Release frees a claimed key whose request was not successful.
	Release(ctx context.Context, account signal.AccountID, key signal.ReplyKey) error
	// SaveReply keeps the answer to a request whose change does not.
	SaveReply(ctx context.Context, account signal.AccountID, r *signal.Reply) error
}

const (
	keyHeader    = "Idempotency-Key"
	maxKeyLength = 255
	// maxKeptReply is the size in bytes beyond which an answer is not kept if it can be
	// made again.
	maxKeptReply = 1 << 10
	// releaseTimeout bounds freeing a key; if it fails the claim expires by itself.
	releaseTimeout = 2 * time.Second
)

// idempotencyKey returns the key that a request names, if it names one.
func idempotencyKey(h http.Header) (key string, given bool) {
	values := h[keyHeader]
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// checkIdempotencyKey records the faults of a key: it must have 1 to 255 printable
// characters of ASCII.
func checkIdempotencyKey(h http.Header, f *request.Faults) {
	key, given := idempotencyKey(h)
	switch {
	case !given:
	case len(h[keyHeader]) > 1:
		f.Add(request.InHeader, keyHeader, request.CodeDuplicate, "is given more than once")
	case key == "":
		f.Add(request.InHeader, keyHeader, request.CodeTooShort, "must have at least 1 character")
	case len(key) > maxKeyLength:
		f.Add(request.InHeader, keyHeader, request.CodeTooLong, "must have at most 255 characters")
	default:
		for i := range len(key) {
			if key[i] < ' ' || key[i] > '~' {
				f.Add(request.InHeader, keyHeader, request.CodeFormat, "must be printable ASCII")
				return
			}
		}
	}
}

// replayOr answers with the reply that is kept for key, whose body again returns where it
// is omitted; or else by first, whose failure frees the key. A reply that was stored
// nevertheless stays: releasing drops a claim only.
func (s *Server) replayOr(c *call, account signal.AccountID, key signal.ReplyKey, first func() error,
	again answerer) error {
	kept, err := s.o.Replies.Claim(c.r.Context(), account, key)
	if err != nil {
		return err
	}
	if kept != nil {
		return s.replay(c, kept, again)
	}
	succeeded := false
	defer func() { // also when first panics
		if succeeded {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), releaseTimeout)
		defer cancel()
		if err := s.o.Replies.Release(ctx, account, key); err != nil {
			s.log.Warn("idempotency key not released", "request", c.id, "err", err)
		}
	}()
	err = first()
	succeeded = err == nil
	return err
}

// answerer returns the body of an answer.
type answerer func(ctx context.Context) ([]byte, error)

// replay answers as the first time.
func (s *Server) replay(c *call, kept *signal.Reply, again answerer) error {
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
	if body == nil && kept.Signal != nil {
		body = appendSignal(nil, kept.Signal)
	}
	if c.operation.secret {
		var err error
		if body, err = s.o.Sealer.Open(body, replyPurpose(c, kept.Key)); err != nil {
			return fmt.Errorf("open kept answer: %w", err)
		}
	}
	return c.json(kept.Status, body)
}

// replyKey returns under what the answer to the request is kept; nil if it names no
// Idempotency-Key.
func (s *Server) replyKey(c *call, body []byte) *signal.ReplyKey {
	key, given := idempotencyKey(c.r.Header)
	if !given {
		return nil
	}
	// By a key, since a body may hold a secret, and its digest is kept for a day.
	digests := s.o.Sealer.Digests(body, "request "+replyPurpose(c, key))
	former := append(digests[1:], sha256.Sum256(body)) // as version 1.0 kept them
	return &signal.ReplyKey{
		Method:       c.r.Method,
		Path:         c.r.URL.Path,
		Key:          key,
		RequestHash:  digests[0],
		FormerHashes: former,
	}
}

// once answers 200 with what do returns. With an Idempotency-Key it is done for the
// first of the requests, and all get its answer: kept, or made by again, which may be nil,
// where it is larger than maxKeptReply. A client that goes away ends nothing.
func (s *Server) once(c *call, body []byte, do, again answerer) error {
	ctx := context.WithoutCancel(c.r.Context())
	key := s.replyKey(c, body)
	answer := func() error {
		said, err := do(ctx)
		if err != nil {
			return err
		}
		if key != nil {
			s.keep(ctx, c, *key, said, again != nil && len(said) > maxKeptReply)
		}
		return c.json(http.StatusOK, said)
	}
	if key == nil {
		return answer()
	}
	return s.replayOr(c, c.principal.Account, *key, answer, again)
}

// onceEmpty is once for a request without values.
func (s *Server) onceEmpty(c *call, do, again answerer) error {
	checkIdempotencyKey(c.r.Header, &c.faults)
	body, err := c.empty()
	if err != nil {
		return err
	}
	return s.once(c, body, do, again)
}

// reply returns an answer as it is kept for those who ask again, without its body if that
// is omitted.
func (s *Server) reply(c *call, key signal.ReplyKey, answer []byte, omit bool) *signal.Reply {
	r := &signal.Reply{ReplyKey: key, Status: http.StatusOK, Omitted: omit}
	switch {
	case omit:
	case c.operation.secret:
		r.Body = s.o.Sealer.Seal(answer, replyPurpose(c, key.Key))
	default:
		r.Body = answer
	}
	return r
}

// keep stores an answer for repeated requests. If that fails, they are refused for a while
// as if the first were under way; the first must get its answer all the same.
func (s *Server) keep(ctx context.Context, c *call, key signal.ReplyKey, answer []byte, omit bool) {
	r := s.reply(c, key, answer, omit)
	if err := s.o.Replies.SaveReply(ctx, c.principal.Account, r); err != nil {
		s.log.Warn("answer not kept", "request", c.id, "err", err)
	}
}

// replyPurpose is the purpose for which an answer that holds a secret is sealed.
func replyPurpose(c *call, key string) string { return string(c.principal.Account) + " " + key }
