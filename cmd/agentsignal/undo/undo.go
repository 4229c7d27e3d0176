// Package undo ends parts that depend on each other in the reverse order of their start. All
// are ended, even if one fails.
package undo

import (
	"context"
	"errors"
	"fmt"
)

// List holds the steps that end the started parts. The zero value is an empty list. It is
// not safe for concurrent use.
type List struct {
	steps []step
}

// step ends one part.
type step struct {
	what string
	f    func(context.Context) error
}

// Add adds f, which ends the part that was started last; what names the part in errors.
func (u *List) Add(what string, f func(context.Context) error) {
	u.steps = append(u.steps, step{what, f})
}

// Run ends all parts, the last first, and returns the joined errors. The list is empty
// afterwards.
func (u *List) Run(ctx context.Context) error {
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		if err := u.steps[i].f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", u.steps[i].what, err))
		}
	}
	u.steps = nil
	return errors.Join(errs...)
}
