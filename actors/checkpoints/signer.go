package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Messages of the signer to itself.
type (
	checkDue struct{}
	checked  struct {
		last *verify.Checkpoint // the newest one; nil if it is not known
		err  error
	}
)

const (
	// checkEvery is how often the signer counts leaves.
	checkEvery = time.Second
	// signBefore is how much earlier than due it signs: for the wait of a leaf, and for a check.
	signBefore = appendAfter + checkEvery
	// signEvery is how often it signs without new leaves, so that readers see that nothing was added.
	signEvery = time.Minute
)

// signer is the actor that signs the heads of all logs.
type signer struct {
	o       *owned
	passed  time.Time // the last check without an error, or the start
	failing bool      // the last check failed and was logged
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
	o := s.o
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		newest, err := o.check(ctx)
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
			s.o.log.Error("no checkpoint is signed: after a restore from a backup, run agentsignal record accept-rollback, "+
				"or start with a new record key", "err", m.err)
		} else {
			s.o.log.Warn("no checkpoint is signed", "err", m.err)
		}
	}
	c.After(checkEvery, checkDue{})
}

// check signs a checkpoint if one is due, and returns the newest.
func (o *owned) check(ctx context.Context) (*verify.Checkpoint, error) {
	stored, err := o.store.Checkpoint(ctx)
	if err != nil && signal.KindOf(err) != signal.KindNotFound {
		return nil, err
	}
	var last *verify.Checkpoint
	if stored != nil {
		last = stored.Checkpoint
	}
	if last != nil && last.Origin != o.keys.Name() {
		// A new name is a new record: verifiers of the former one accept none of its checkpoints.
		o.log.Warn("a new record begins: the signing keys have another name", "name", o.keys.Name(),
			"former", last.Origin, "signed", last.At)
		last = nil
	}
	if err := o.extends(ctx, last); err != nil {
		return nil, err
	}
	now := o.options.Now().UTC().Truncate(time.Second)
	if last != nil {
		n, err := o.store.CountLeaves(ctx)
		if err != nil {
			return last, err
		}
		grown, age := n-last.Size(), now.Sub(last.At)
		due := age >= signEvery || grown > 0 && age >= o.options.Every-signBefore
		if !due && grown >= 0 && age >= 0 {
			return last, nil
		}
	}
	next, err := o.sign(ctx, last, now)
	if err != nil {
		return last, err
	}
	return next, nil
}

// sign signs and stores the checkpoint after last, which is nil at the beginning of a record.
func (o *owned) sign(ctx context.Context, last *verify.Checkpoint, now time.Time) (*verify.Checkpoint, error) {
	heads, err := o.store.LogHeads(ctx)
	if err != nil {
		return nil, err
	}
	heads.At, heads.Retention = now, o.options.Retention
	root := &record.Tree{}
	if last != nil {
		if err := o.follows(ctx, last, &verify.Checkpoint{Origin: last.Origin, Root: last.Root, Heads: *heads}); err != nil {
			return nil, err
		}
		if root, err = o.store.RootTree(ctx, last.Root); err != nil {
			return nil, err
		}
	}
	back, before, err := o.accepted(ctx, root)
	if err != nil {
		return nil, err
	}
	next, pieces, err := o.keys.Sign(root, *heads)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	if err := o.store.StoreCheckpoint(ctx, o.Epoch, next, back, append(before, pieces...)); err != nil {
		return nil, err
	}
	if err := o.kept.saw(next); err != nil {
		o.log.Warn("the newest checkpoint is not kept", "err", err)
	}
	return next.Checkpoint, nil
}

// accepted adds an accepted rollback to the root log, once. It returns nil without one.
func (o *owned) accepted(ctx context.Context, root *record.Tree) (*record.Rollback, []record.Piece, error) {
	back, err := o.store.Rollback(ctx)
	if err != nil || back == nil || back.Entry > 0 || back.Origin != o.keys.Name() {
		return nil, nil, err
	}
	pieces := root.Append([]tlog.Hash{tlog.RecordHash([]byte(back.Text()))})
	back.Entry = root.Size()
	return back, pieces, nil
}

// contradicts reports whether err is that of follows, and not of the store.
func contradicts(err error) bool {
	return errors.Is(err, verify.ErrRewritten) || errors.Is(err, verify.ErrOlder) || errors.Is(err, verify.ErrOtherLog)
}

// follows checks that next may come after last. A verifier would take two checkpoints that contradict
// each other as proof that the record was rewritten. They do if Redis has lost leaves that were
// signed, or if the clock was set back; it then takes a person to decide.
func (o *owned) follows(ctx context.Context, last, next *verify.Checkpoint) error {
	g, err := o.store.Growth(ctx, last, next)
	if err != nil {
		return err
	}
	return g.Consistent(last, next)
}
