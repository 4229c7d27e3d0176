package http

import (
	"context"
	"errors"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Witnesses keeps the signatures of witnesses. See checkpoints.Witnesses.
type Witnesses interface {
	// Count returns the number of trusted witnesses.
	Count() int
	// Add stores a checkpoint that trusted witnesses have signed.
	Add(ctx context.Context, signed []byte) error
	// List returns the newest checkpoint that each witness has signed.
	List(ctx context.Context) ([]record.Countersigned, error)
	// Merge adds the signatures of witnesses to a checkpoint.
	Merge(ctx context.Context, signed []byte) ([]byte, error)
}

// witnessView is the newest checkpoint that a witness has signed.
type witnessView struct {
	Key        string  `json:"key"`
	At         instant `json:"at"`
	Checkpoint string  `json:"checkpoint"`
}

type witnessList struct {
	Witnesses []witnessView `json:"witnesses"`
}

// listWitnesses answers GET /v1/log/witness.
func (h *RecordHandlers) listWitnesses(c *call) error {
	ctx := c.r.Context()
	all, err := h.witnesses.List(ctx)
	if err != nil {
		return err
	}
	list := witnessList{Witnesses: []witnessView{}}
	if len(all) == 0 {
		return c.value(http.StatusOK, list)
	}
	newest, err := h.stored(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		w := &all[i]
		at, err := h.record.CheckpointAt(ctx, w.Size, newest)
		if signal.KindOf(err) == signal.KindNotFound { // of a root log that was rolled back
			continue
		}
		if err != nil {
			return err
		}
		list.Witnesses = append(list.Witnesses, witnessView{w.Key, instant(at.At), string(w.Note)})
	}
	return c.value(http.StatusOK, list)
}

// countersign answers POST /v1/log/witness.
func (h *RecordHandlers) countersign(c *call) error {
	var signed string
	if err := c.decode(func(o *request.Object) {
		const rule = "must be a signed checkpoint: the text of GET /v1/log/checkpoint, with a line of your signature added"
		if signed = o.Given("note", rule); len(signed) > verify.MaxNote {
			o.Bad("note", request.CodeTooLong, request.AtMost(verify.MaxNote))
		}
	}); err != nil {
		return err
	}
	if h.witnesses.Count() == 0 {
		return notFound("witness", "this service trusts none; its operator lists their public keys in record.witnesses")
	}
	if err := h.witnesses.Add(c.r.Context(), []byte(signed)); err != nil {
		return badNote(c, err)
	}
	return h.listWitnesses(c)
}

// badNote returns the fault of a note that cannot be stored.
func badNote(c *call, err error) error {
	code, advice := request.CodeInvalidValue, ""
	switch {
	case errors.Is(err, record.ErrNotOwn):
		advice = ": send all lines of GET /v1/log/checkpoint unchanged, and add a line of your signature"
	case errors.Is(err, record.ErrLost):
		advice = ": send the newest one"
	case errors.Is(err, record.ErrNoWitness):
		advice = ": the operator lists the public keys of witnesses in record.witnesses"
	case errors.Is(err, verify.ErrNote):
		code = request.CodeFormat
	default:
		return err
	}
	c.faults.Body("/note", code, err.Error()+advice)
	return c.faults.Err()
}
