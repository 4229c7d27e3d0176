package checkpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// askTimeout is the time limit of a request to a witness.
	askTimeout = 8 * time.Second

	statusSigned    = 200
	statusOtherSize = 409 // the answer is the size that the witness has signed
)

// errAhead is the error of a witness that has seen more entries than there are.
var errAhead = errors.New("the witness has seen a longer root log: Redis was rolled back, or the record has two services")

// Messages of a cosigner to itself.
type (
	askDue struct{}
	asked  struct {
		known int64
		err   error
	}
)

// cosigner is the actor that has a witness sign new checkpoints, by add-checkpoint of C2SP
// tlog-witness.
type cosigner struct {
	o       *owned
	url     string
	known   int64 // entries of the root log that the witness has signed
	failing bool
}

// Receive implements engine.Actor.
func (s *cosigner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, askDue:
		known := s.known
		c.Go(func(ctx context.Context) any {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			n, err := s.cosign(ctx, known)
			return asked{n, err}
		})
	case asked:
		s.known = m.known
		if m.err != nil && !s.failing {
			s.o.log.Warn("a witness does not sign checkpoints", "url", s.url, "err", m.err)
		}
		s.failing = m.err != nil
		c.After(s.o.options.Every, askDue{})
	}
}

// cosign has a witness sign the newest checkpoint, of which it has signed the first known entries. It
// returns how many it has signed now.
func (s *cosigner) cosign(ctx context.Context, known int64) (int64, error) {
	o := s.o
	newest, err := o.store.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound {
		return known, nil
	}
	if err != nil || newest.Root.N == known {
		return known, err
	}
	lines, seen, err := s.ask(ctx, known, newest)
	if err == nil && lines == nil { // it knows another size
		if seen > newest.Root.N {
			return known, errAhead
		}
		known = seen
		lines, _, err = s.ask(ctx, known, newest)
	}
	if err != nil {
		return known, err
	}
	if err := o.options.Witnesses.Add(ctx, append(bytes.Clone(newest.Note), lines...)); err != nil {
		return known, err
	}
	return newest.Root.N, nil
}

// ask sends a checkpoint to a witness that has signed the first known entries. It returns the lines of
// its signatures, or none and how many entries the witness has signed.
func (s *cosigner) ask(ctx context.Context, known int64, c *record.Signed) ([]byte, int64, error) {
	g, err := s.o.store.Growth(ctx, &verify.Checkpoint{Root: tlog.Tree{N: known}}, &verify.Checkpoint{Root: c.Root})
	if err != nil {
		return nil, known, err
	}
	body := fmt.Appendf(nil, "old %d\n", known)
	for _, h := range g.Root {
		body = fmt.Appendf(body, "%v\n", h)
	}
	body = fmt.Appendf(body, "\n%s", c.Note)
	status, answer, err := s.o.options.Ask(ctx, strings.TrimSuffix(s.url, "/")+"/add-checkpoint", body)
	if err != nil {
		return nil, known, err
	}
	switch status {
	case statusSigned:
		return answer, c.Root.N, nil
	case statusOtherSize:
		seen, err := strconv.ParseInt(strings.TrimSpace(string(answer)), 10, 64)
		if err == nil && seen >= 0 && seen != known {
			return nil, seen, nil
		}
	}
	return nil, known, fmt.Errorf("it answers %d: %.200q", status, answer)
}
