package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Proof is what the proof of a signal proves.
type Proof struct {
	Checkpoint *verify.Checkpoint
	Signal     string
	Created    *verify.Entry
	CreatedAt  time.Time
	Closed     *verify.Entry // nil: not in the checkpoint
	ClosedAt   time.Time
	Reason     string
	Shown      bool     // a signal was compared
	Unproved   []string // its members that are the word of the service
}

// CheckProof checks the answer of GET /v1/signals/{id}/proof, and that the signal is as GET
// /v1/signals/{id} shows it, which may be nil. signed is the checkpoint if the answer has none.
func CheckProof(answer, shown []byte, signed string, keys Keys) (*Proof, error) {
	var a struct {
		Checkpoint string       `json:"checkpoint"`
		Created    *verify.Leaf `json:"created"`
		Closed     *verify.Leaf `json:"closed"`
	}
	if err := decode(answer, "a proof, the answer of GET /v1/signals/{id}/proof", &a); err != nil {
		return nil, err
	}
	if a.Created == nil {
		return nil, fmt.Errorf("%w: it is not a proof, the answer of GET /v1/signals/{id}/proof", errForm)
	}
	if signed == "" {
		signed = a.Checkpoint
	}
	if signed == "" {
		return nil, fmt.Errorf("%w: the proof has no checkpoint: give it by --checkpoint", errForm)
	}
	c, err := keys.open(signed)
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

// Growth is what the proof of consistency of two checkpoints proves.
type Growth struct{ Older, Newer *verify.Checkpoint }

// Sizes returns the sizes of the logs of a checkpoint as GET /v1/log/consistency reads them.
func Sizes(c *verify.Checkpoint) string {
	sizes := make([]string, len(c.Logs))
	for i, l := range c.Logs {
		sizes[i] = strconv.FormatInt(l.N, 10)
	}
	return strings.Join(sizes, ",")
}

// Open opens a checkpoint.
func (k Keys) Open(signed []byte) (*verify.Checkpoint, error) { return k.open(string(signed)) }

// CheckConsistency checks that the logs of a newer checkpoint begin with those of an older one, by
// the answer of GET /v1/log/consistency. newer may be nil if the answer has it.
func CheckConsistency(older, answer, newer []byte, keys Keys) (*Growth, error) {
	var a struct {
		Checkpoint string           `json:"checkpoint"`
		From       []int64          `json:"from"`
		Proofs     []tlog.TreeProof `json:"proofs"`
	}
	if err := decode(answer, "the answer of GET /v1/log/consistency", &a); err != nil {
		return nil, err
	}
	if newer != nil {
		a.Checkpoint = string(newer)
	}
	if a.Checkpoint == "" || a.Proofs == nil {
		return nil, fmt.Errorf("%w: it is not an answer of GET /v1/log/consistency with a checkpoint", errForm)
	}
	var g Growth
	var err error
	if g.Older, err = keys.open(string(older)); err != nil {
		return nil, fmt.Errorf("older checkpoint: %w", err)
	}
	if g.Newer, err = keys.open(a.Checkpoint); err != nil {
		return nil, fmt.Errorf("newer checkpoint: %w", err)
	}
	if err := verify.Consistent(g.Older, g.Newer, a.Proofs); err != nil {
		from, _ := json.Marshal(a.From)
		if want := Sizes(g.Older); errors.Is(err, verify.ErrRewritten) && string(from) != "["+want+"]" {
			return nil, fmt.Errorf("%w; or the answer is not that of from=%s", err, want)
		}
		return nil, err
	}
	return &g, nil
}
