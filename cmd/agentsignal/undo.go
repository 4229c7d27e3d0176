package main

import (
	"context"
	"errors"
	"fmt"
)

// undoList holds how to end what was built, the last first.
type undoList struct {
	steps []undoStep
}

type undoStep struct {
	what string
	f    func(context.Context) error
}

// add notes f, which ends what was built last; what names that in errors.
func (u *undoList) add(what string, f func(context.Context) error) {
	u.steps = append(u.steps, undoStep{what, f})
}

// run ends everything, whatever fails on the way.
func (u *undoList) run(ctx context.Context) error {
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		if err := u.steps[i].f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", u.steps[i].what, err))
		}
	}
	u.steps = nil
	return errors.Join(errs...)
}
