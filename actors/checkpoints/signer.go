package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Messages of the signer to itself.
type (
	checkDue struct{}
	checked  struct {
		last *verify.Checkpoint // the newest one
		err  error
	}
)

const (
	// checkEvery is how often the signer counts leaves.
	checkEvery = time.Second
	// signEvery is how often it signs without new leaves, so that readers see that there are none.
	signEvery = time.Minute
)

// signer is the actor that signs the heads of all logs.
type signer struct {
	o       *owned
	last    *verify.Checkpoint // nil before the first one
	passed  time.Time          // the last check without an error, or the start
	failing bool               // the last check failed and was logged
}

// Receive implements engine.Actor.
func (s *signer) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		s.passed = time.Now()
		s.check(c)
	case checkDue:
		s.check(c)
	case checked:
		s.onChecked(c, m)
	case engine.Stopping, engine.Restarting:
		s.o.options.Metrics.aged(0)
	}
}

func (s *signer) check(c engine.Context) {
	o, last := s.o, s.last
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		newest, err := o.check(ctx, last)
		return checked{newest, err}
	})
}

func (s *signer) onChecked(c engine.Context, m checked) {
	if m.err == nil {
		s.passed = time.Now()
	}
	// The newest checkpoint may be unknown, or from before the clock was set back.
	age := time.Since(s.passed)
	if m.last != nil {
		s.last = m.last
		age = max(age, s.o.options.Now().Sub(m.last.At))
	}
	s.o.options.Metrics.aged(age)
	switch {
	case s.o.Refused(m.err):
		return
	case m.err == nil:
		s.failing = false
	case !s.failing:
		s.failing = true
		if contradicts(m.err) { // it takes a person to decide
			s.o.log.Error("no checkpoint is signed: after a restore from a backup, start with a new record key", "err", m.err)
		} else {
			s.o.log.Warn("no checkpoint is signed", "err", m.err)
		}
	}
	c.After(checkEvery, checkDue{})
}

// check signs a checkpoint if one is due after the last one, and returns the newest.
func (o *owned) check(ctx context.Context, last *verify.Checkpoint) (*verify.Checkpoint, error) {
	if last == nil {
		_, stored, err := o.store.Checkpoint(ctx)
		if err != nil && signal.KindOf(err) != signal.KindNotFound {
			return nil, err
		}
		last = stored
	}
	if last != nil && last.Origin != o.keys.Name() {
		// A new name is a new record: verifiers of the former one accept none of its checkpoints.
		o.log.Warn("a new record begins: the signing keys have another name", "name", o.keys.Name(),
			"former", last.Origin, "signed", last.At)
		last = nil
	}
	now := o.options.Now().UTC().Truncate(time.Second)
	if last != nil {
		n, err := o.store.CountLeaves(ctx)
		if err != nil {
			return last, err
		}
		grown := n - last.Size()
		age := now.Sub(last.At)
		due := age >= signEvery || age >= o.options.Every && grown > 0
		if !due && grown >= 0 && age >= 0 {
			return last, nil
		}
	}
	heads, err := o.store.LogHeads(ctx)
	if err != nil {
		return last, err
	}
	c := &verify.Checkpoint{Origin: o.keys.Name(), At: now, Retention: o.options.Retention, Logs: heads}
	if last != nil {
		if err := o.follows(ctx, last, c); err != nil {
			return last, err
		}
	}
	signed, err := o.keys.Sign(c)
	if err != nil {
		return last, fmt.Errorf("sign checkpoint: %w", err)
	}
	if err := o.store.StoreCheckpoint(ctx, o.Epoch, signed); err != nil {
		return last, err
	}
	return c, nil
}

// contradicts reports whether err is that of follows, and not of the store.
func contradicts(err error) bool {
	return errors.Is(err, verify.ErrRewritten) || errors.Is(err, verify.ErrOlder) || errors.Is(err, verify.ErrOtherLog)
}

// follows checks that next may be signed after last. A verifier would take two heads that
// contradict each other as proof that the record was rewritten. They do if Redis has lost leaves
// that were signed, or if the clock was set back; it then takes a person to decide.
func (o *owned) follows(ctx context.Context, last, next *verify.Checkpoint) error {
	sizes := make([]int64, len(last.Logs))
	for i, l := range last.Logs {
		sizes[i] = l.N
		if i >= len(next.Logs) || next.Logs[i].N < l.N {
			return fmt.Errorf("%w: log %d", verify.ErrRewritten, i)
		}
	}
	if len(sizes) != len(next.Logs) {
		return verify.ErrOtherLog
	}
	proofs, err := o.store.LogConsistency(ctx, sizes, next)
	if err != nil {
		return err
	}
	return verify.Consistent(last, next, proofs)
}
