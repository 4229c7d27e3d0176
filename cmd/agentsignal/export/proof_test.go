package export

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// A closing proves nothing of a signal unless it is recorded of that signal and of its account: one log has the
// entries of several accounts.
func TestClosingsBelongToTheirSignals(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 4)
	const own = 1
	appended := func(change func(x *signal.Signal)) int {
		x := s.signals[own].signal
		change(&x)
		return s.append(record.Text(&x, "", record.Place{Counts: s.counts}))
	}
	ofAccount := appended(func(x *signal.Signal) { x.Account = "acc_other" })
	ofSignal := appended(func(x *signal.Signal) { x.ID = signal.NewSignalID() })
	newest := sign(t, s)
	c := newest.Checkpoint
	for name, row := range map[string]struct {
		closed int
		want   error
	}{
		"its own":             {s.signals[own].closed, nil},
		"of another account":  {ofAccount, verify.ErrDiffers},
		"of another signal":   {ofSignal, verify.ErrDiffers},
		"created, not closed": {s.signals[own].created, verify.ErrDiffers},
	} {
		created, err := s.proved(c, s.signals[own].created)
		if err != nil {
			t.Fatal(err)
		}
		closed, err := s.proved(c, row.closed)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(proof{signed{string(newest.Note), newest.Entry}, created, closed})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := CheckProof(text, nil, "", keys); !errors.Is(err, row.want) {
			t.Errorf("%s: got %+v, %v, want %v", name, p, err, row.want)
		}
	}
}
