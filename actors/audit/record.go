package audit

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Records compares the record of signals with what is stored. See leaves.Store of persistence.
type Records interface {
	// CheckLeaves compares the Merkle log of a partition with its signal log, which must have the
	// entries since kept.
	CheckLeaves(ctx context.Context, partition int, kept time.Time) (*record.Checked, error)
}

// Record is what comparing stored signals with their record has found.
type Record struct {
	Created   int64     `json:"created"` // signals that were ever recorded
	Closed    int64     `json:"closed"`
	Leaves    int64     `json:"leaves"`  // of all accounts; 0 in the report of one
	Matched   int64     `json:"matched"` // stored creations and closings that are the recorded ones
	Trimmed   int64     `json:"trimmed"` // older than the retention, as far as was read
	Erased    int64     `json:"erased"`  // of deleted accounts
	Unknown   int64     `json:"unknown"` // too many are missing to name their accounts
	Differing []Finding `json:"differing"`
}

// Finding is a contradiction between the record and what is stored.
type Finding struct {
	Account   signal.AccountID `json:"account,omitempty"`
	ID        signal.SignalID  `json:"signal_id,omitempty"`
	Partition int              `json:"log"`
	Leaf      int64            `json:"leaf"` // -1: it has none
	What      string           `json:"what"`
}

func (f *Finding) prefix() string {
	if f.ID != "" {
		return string(f.ID) + ": "
	}
	return ""
}

func (r *Record) print(w io.Writer) {
	fmt.Fprintf(w, "record: %d leaves, %d signals created and %d closed, %d entries are the recorded ones, "+
		"%d are trimmed, %d of deleted accounts\n", r.Leaves, r.Created, r.Closed, r.Matched, r.Trimmed, r.Erased)
	if r.Unknown > 0 {
		fmt.Fprintf(w, "record: %d more entries are missing, of deleted accounts or of others\n", r.Unknown)
	}
}

func (r *Record) merge(a *Record) {
	r.Created, r.Closed = r.Created+a.Created, r.Closed+a.Closed
	r.Leaves, r.Matched, r.Trimmed = r.Leaves+a.Leaves, r.Matched+a.Matched, r.Trimmed+a.Trimmed
	r.Erased, r.Unknown = r.Erased+a.Erased, r.Unknown+a.Unknown
	r.Differing = append(r.Differing, a.Differing...)
}
