package http

import (
	"context"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Replies keeps the first successful answers to requests with an Idempotency-Key.
// The change that the request causes stores its answer; see signal.Change.
type Replies interface {
	// Claim takes a key for a request that begins. It returns the answer that is
	// kept for it, or nil if this request is the first. The error is KindConflict
	// if the first is still running, and KindMismatch if it was another request.
	Claim(ctx context.Context, account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error)
	// Release frees a claimed key whose request was not successful.
	Release(ctx context.Context, account signal.AccountID, key signal.ReplyKey) error
}

const (
	keyHeader    = "Idempotency-Key"
	maxKeyLength = 255
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

// checkIdempotencyKey notes a key that is none: it has 1 to 255 printable
// characters of ASCII.
func checkIdempotencyKey(h http.Header, f *faults) {
	key, given := idempotencyKey(h)
	switch {
	case !given:
	case len(h[keyHeader]) > 1:
		f.add(inHeader, keyHeader, faultDuplicate, "is given more than once")
	case key == "":
		f.add(inHeader, keyHeader, faultTooShort, "must have at least 1 character")
	case len(key) > maxKeyLength:
		f.add(inHeader, keyHeader, faultTooLong, "must have at most 255 characters")
	default:
		for i := range len(key) {
			if key[i] < ' ' || key[i] > '~' {
				f.add(inHeader, keyHeader, faultFormat, "must be printable ASCII")
				return
			}
		}
	}
}

// replayOr answers with the reply that is kept for key, or else by first, whose
// failure frees the key. A reply that was stored nevertheless stays: releasing drops
// a claim only.
func (s *Server) replayOr(c *call, account signal.AccountID, key signal.ReplyKey, first func() error) error {
	kept, err := s.o.Replies.Claim(c.r.Context(), account, key)
	if err != nil {
		return err
	}
	if kept != nil {
		return c.replay(kept)
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

// replay answers as the first time.
func (c *call) replay(kept *signal.Reply) error {
	h := c.Header()
	for name, value := range kept.Header {
		h.Set(name, value)
	}
	h.Set("Idempotency-Replayed", "true")
	body := kept.Body
	if body == nil && kept.Signal != nil {
		body = appendSignal(nil, kept.Signal)
	}
	return c.json(kept.Status, body)
}
