// Package undo ends what was built, the last first. Whoever builds several parts that
// depend on each other adds to a List how each one ends; running the list ends all of
// them, also if one fails to.
package undo

import (
	"context"
	"errors"
	"fmt"
)

// List holds how to end what was built. The zero value is an empty list. It is for one
// goroutine at a time.
type List struct {
	steps []step
}

// step is how one part ends.
type step struct {
	what string
	f    func(context.Context) error
}

// Add appends f, which ends what was built last; what names that part in errors.
func (u *List) Add(what string, f func(context.Context) error) {
	u.steps = append(u.steps, step{what, f})
}

// Run ends everything, the last first, and returns the errors of all that failed. The
// list is empty afterwards.
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
