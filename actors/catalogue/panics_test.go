package catalogue

import (
	"context"
	"testing"
)

// panickingRecords panics at its first pass, in the middle.
type panickingRecords struct {
	*fakeLog
	passes int
}

func (r *panickingRecords) ScanSignals(ctx context.Context, p int, f func(Entry) error) error {
	if r.passes++; r.passes == 1 {
		panic("an entry")
	}
	return r.fakeLog.ScanSignals(ctx, p, f)
}

func TestAPassThatPanicsFailsAndIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	c := New(f, &panickingRecords{fakeLog: f}, 1, Options{})
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err == nil {
		t.Error("a list of a pass that panicked is given")
	}
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
