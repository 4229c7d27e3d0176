package ownership

import (
	"errors"
	"testing"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// owner records why it must give its partition up.
type owner struct{ lost chan error }

func (o owner) Receive(c engine.Context) {
	if m, ok := c.Message().(Lost); ok {
		o.lost <- m.Err
	}
}

func TestTheOwnerIsNotifiedOfARefusalOnly(t *testing.T) {
	t.Parallel()
	sys := engine.NewSystem(engine.Options{})
	defer sys.Shutdown(t.Context())
	lost := make(chan error, 10)
	produce := func() engine.Actor { return owner{lost} }
	o := Owned{Owner: sys.Spawn(engine.Partition, "0", produce, engine.Supervision{})}
	down := errors.New("down")
	for _, err := range []error{nil, down, signal.Unavailable(down), signal.NotFound("webhook")} {
		if o.Refused(err) {
			t.Errorf("%v was taken for a refusal", err)
		}
	}
	refusal := &signal.Error{Kind: signal.KindConflict, Code: signal.CodeNotOwner}
	if !o.Refused(refusal) {
		t.Error("a refusal was not seen")
	}
	o.GiveUp(signal.ErrRolledBack)
	for _, want := range []error{refusal, signal.ErrRolledBack} {
		if got := <-lost; !errors.Is(got, want) {
			t.Errorf("the owner got %v, want %v", got, want)
		}
	}
	if len(lost) > 0 {
		t.Errorf("the owner also got %v", <-lost)
	}
}
