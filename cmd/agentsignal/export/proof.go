package export

import (
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Proof is what the proof of a signal proves.
type Proof struct {
	Checkpoint *verify.Checkpoint
	Signal     string
	Created    *verify.Recorded
	CreatedAt  time.Time
	Closed     *verify.Recorded // nil: not in the checkpoint
	ClosedAt   time.Time
	Reason     string
	Shown      bool     // a signal was compared
	Unproved   []string // its members that are the word of the service
}

// CheckProof checks the answer of GET /v1/signals/{id}/proof, and that the signal is as GET
// /v1/signals/{id} shows it, which may be nil. note is the checkpoint if the answer has none.
func CheckProof(answer, shown []byte, note string, keys Keys) (*Proof, error) {
	var a proof
	if err := decode(answer, "a proof, the answer of GET /v1/signals/{id}/proof", &a); err != nil {
		return nil, err
	}
	if a.Created == nil {
		return nil, fmt.Errorf("%w: it is not a proof, the answer of GET /v1/signals/{id}/proof", errForm)
	}
	if note != "" {
		a.Checkpoint = note
	}
	if a.Checkpoint == "" {
		return nil, fmt.Errorf("%w: the proof has no checkpoint: give it by --checkpoint", errForm)
	}
	c, err := keys.open(&a.signed)
	if err != nil {
		return nil, err
	}
	p := &Proof{Checkpoint: c, Shown: shown != nil}
	var was recorded
	if p.Created, err = open(c, a.Created, "created", &was); err != nil {
		return nil, err
	}
	p.Signal, p.CreatedAt = p.Created.Signal, was.CreatedAt
	text := ""
	if a.Closed != nil {
		text = a.Closed.Text
		if p.Closed, err = open(c, a.Closed, "closed", &was); err != nil {
			return nil, err
		}
		if p.Closed.Signal != p.Signal || p.Closed.Account != p.Created.Account {
			return nil, fmt.Errorf(
				"%w: the closing is that of another signal, %.64s",
				verify.ErrDiffers,
				p.Closed.Signal,
			)
		}
		p.ClosedAt, p.Reason = was.ClosedAt, string(was.Reason)
	}
	if p.Shown {
		p.Unproved, err = verify.Matches(a.Created.Text, text, shown)
	}
	return p, err
}

// consistency is the answer of GET /v1/log/consistency.
type consistency struct {
	Checkpoint string `json:"checkpoint"`
	From       sized  `json:"from"`
	To         sized  `json:"to"`
	*verify.Growth
}

// sized is the last entry of a root log with so many entries.
type sized struct {
	Size  int64        `json:"size"`
	Heads verify.Entry `json:"heads"`
}

// CheckConsistency checks that the logs of a newer checkpoint begin with those of an older one, by
// the answer of GET /v1/log/consistency, and returns both. newer may be nil if the answer has it.
func CheckConsistency(older, answer, newer []byte, keys Keys) (was, is *verify.Checkpoint, err error) {
	var a consistency
	if err := decode(answer, "the answer of GET /v1/log/consistency", &a); err != nil {
		return nil, nil, err
	}
	if newer != nil {
		a.Checkpoint = string(newer)
	}
	if a.Checkpoint == "" || a.Growth == nil {
		return nil, nil, fmt.Errorf("%w: it is not an answer of GET /v1/log/consistency with a checkpoint", errForm)
	}
	if was, err = keys.Open(older); err != nil {
		return nil, nil, fmt.Errorf("older checkpoint: %w", err)
	}
	if was.Root.N != a.From.Size {
		return nil, nil, fmt.Errorf("%w: the answer is not that of from=%d", verify.ErrRewritten, was.Root.N)
	}
	if err := was.ReadHeads(&a.From.Heads); err != nil {
		return nil, nil, fmt.Errorf("%w: older checkpoint: %w", verify.ErrRewritten, err)
	}
	if is, err = keys.open(&signed{a.Checkpoint, a.To.Heads}); err != nil {
		return nil, nil, fmt.Errorf("newer checkpoint: %w", err)
	}
	return was, is, a.Consistent(was, is)
}
