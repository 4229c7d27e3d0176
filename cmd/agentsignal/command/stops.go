package command

import (
	"context"
	"errors"
	"fmt"
)

// Stops are the steps that end parts that depend on each other, in the reverse order of their start. The zero value
// has no steps. It is not safe for concurrent use.
type Stops struct{ steps []stop }

// stop ends one part.
type stop struct {
	what string
	f    func(context.Context) error
}

// Add adds f, which ends the part that was started last; what names the part in errors.
func (s *Stops) Add(what string, f func(context.Context) error) {
	s.steps = append(s.steps, stop{what, f})
}

// Run ends all parts, the last first, even if one fails, and returns the joined errors. There are no steps afterwards.
func (s *Stops) Run(ctx context.Context) error {
	var errs []error
	for i := len(s.steps) - 1; i >= 0; i-- {
		if err := s.steps[i].f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", s.steps[i].what, err))
		}
	}
	s.steps = nil
	return errors.Join(errs...)
}
