// Package publicrecord computes what the public record of an account shows: what all its agents did, as of the newest
// checkpoint.
//
// Nothing can be left out. The totals are the counts in the account's newest leaf that the checkpoint has, for all time. The
// signals that are kept, since the retention, are counted and summed as far as the same leaf; what the totals have beyond
// them is no longer kept. Of that the leaves of months have the results by agent. Each signal that is shown has its leaves
// with it, with proofs for that checkpoint.
package publicrecord

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// MaxAgents is how many agents are shown by themselves: those with the most closed signals.
	MaxAgents = 20
	// MaxSignals is how many closed signals are shown, and how many open ones.
	MaxSignals = 50
)

// Leaves are the Merkle logs of signals. See leaves.Store of persistence.
type Leaves interface {
	Partition(account signal.AccountID) int
	// Checkpoint returns the newest checkpoint. KindNotFound before the first one.
	Checkpoint(ctx context.Context) (*record.Signed, error)
	// SignedUpTo returns a position up to which a log with the given head has the leaves of all entries.
	SignedUpTo(ctx context.Context, partition int, head tlog.Tree, at time.Time) (signal.Position, error)
	// OpenLeaves returns the leaves of entries of the account, nil for those that there are not.
	OpenLeaves(ctx context.Context, partition int, account signal.AccountID, at []signal.Position,
		head tlog.Tree) ([]*verify.Leaf, error)
	// Account returns the counts of all leaves of an account. KindNotFound: it has none.
	Account(ctx context.Context, partition int, account signal.AccountID) (record.Account, error)
	// Months returns the leaves of the months of an account that a log with the given head has, in their order.
	Months(ctx context.Context, partition int, account signal.AccountID, head tlog.Tree) ([]*verify.Leaf, error)
}

// Witnesses has the signatures of witnesses. See checkpoints.Witnesses.
type Witnesses interface {
	// Merge adds the signatures of witnesses to a checkpoint.
	Merge(ctx context.Context, signed []byte) ([]byte, error)
}

// Lists lists signals. See catalogue.Catalogue.
type Lists interface {
	Standing(ctx context.Context, account signal.AccountID, upTo signal.Position, limit int) (catalogue.Standing, error)
}

// Scorecards has the statistics of closed signals. See scorecard.Scorecards.
type Scorecards interface {
	Standing(ctx context.Context, account signal.AccountID, upTo signal.Position,
		agents []signal.AgentID) (scorecard.Standing, error)
}

// Signals reads signals. See signals.Records of persistence.
type Signals interface {
	SignalsAt(ctx context.Context, account signal.AccountID, at []signal.Location) ([]*signal.Signal, error)
}

// Agents has the living agents of accounts. See agents.Store of persistence.
type Agents interface {
	Agents(ctx context.Context, account signal.AccountID) ([]signal.Agent, error)
}

// Sources are what records are computed from.
type Sources struct {
	Leaves     Leaves
	Witnesses  Witnesses
	Lists      Lists
	Scorecards Scorecards
	Signals    Signals
	Agents     Agents

	Retention time.Duration              // of signals, from their creation
	Cost      func(asset string) float64 // of an entry or an exit, as a share of the price
	Now       func() time.Time           // the service's clock
}

// Record is what a public record shows. It does not change.
type Record struct {
	Account signal.AccountID
	// Checkpoint is the newest one, as of which all is, with the signatures of witnesses in Note. Nil before the first.
	Checkpoint *record.Signed
	Note       []byte
	// Newest is the account's newest leaf in it, which has Totals. Nil: none can be opened, and Totals are those of all leaves,
	// by the word of the service.
	Newest *verify.Leaf
	Totals record.Counts

	Since         time.Time // signals that were created later are kept
	Created, Kept int       // of the signals that are kept: all, and the closed ones

	All backtest.Statistics // of closed signals with prices
	// Committed counts those whose creation was in a checkpoint before they ended, by the word of the service.
	Committed int
	Curve     []scorecard.Point
	Agents    []Agent // those with the most closed signals, these first
	Rest      *Agent  // the others together, without a name; nil without others
	Others    int     // how many these are

	Months []Month // that are over and had closings, in their order

	Closed  []Signal // newest first
	Open    []Signal // newest first; empty unless they are shown
	Sources []string // of the prices of the signals that are shown
}

// NoLongerKept returns how many closed signals are counted alone.
func (r *Record) NoLongerKept() int64 { return max(0, r.Totals.Closed-int64(r.Kept)) }

// Month is a month with what it sums, and its leaf.
type Month struct {
	*verify.Month
	Leaf *verify.Leaf
}

// Agent is what an agent did. Its statistics are of its closed signals with prices.
type Agent struct {
	ID      signal.AgentID
	Name    string // of the agent, if it is not removed
	Removed bool
	catalogue.Count
	Statistics backtest.Statistics
}

// Signal is a signal with its leaves. Those of a signal that was erased meanwhile are nil.
type Signal struct {
	*signal.Signal
	CreatedLeaf, ClosedLeaf *verify.Leaf
	R, RNet                 *float64 // before and after costs; nil without prices
	Reasoning               string   // of the agent
}

// Record computes the record of an account. Open signals are in it if showOpen is set.
func (s *Sources) Record(ctx context.Context, account signal.AccountID, showOpen bool) (*Record, error) {
	r := &Record{Account: account, Since: s.Now().Add(-s.Retention)}
	newest, err := s.Leaves.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound {
		newest, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	partition := s.Leaves.Partition(account)
	var upTo signal.Position
	var head tlog.Tree
	if newest != nil {
		if partition >= len(newest.Logs) {
			return nil, fmt.Errorf("checkpoint has %d logs, and not that of partition %d", len(newest.Logs), partition)
		}
		r.Checkpoint, head = newest, newest.Logs[partition]
		if r.Note, err = s.Witnesses.Merge(ctx, newest.Note); err != nil {
			return nil, err
		}
		if upTo, err = s.Leaves.SignedUpTo(ctx, partition, head, newest.At); err != nil {
			return nil, err
		}
	}
	listed, err := s.Lists.Standing(ctx, account, upTo, MaxSignals)
	if err != nil {
		return nil, err
	}
	if !showOpen {
		listed.Open = nil
	}
	if err := s.sum(ctx, r, upTo, listed.Counts); err != nil {
		return nil, err
	}
	if r.Closed, err = s.show(ctx, r, listed.Closed, head); err != nil {
		return nil, err
	}
	if r.Open, err = s.show(ctx, r, listed.Open, head); err != nil {
		return nil, err
	}
	if err := s.addMonths(ctx, r, partition, head); err != nil {
		return nil, err
	}
	slices.Sort(r.Sources)
	r.Sources = slices.Compact(r.Sources)
	return r, s.total(ctx, r, partition, listed.Last, head)
}

// addMonths adds the months that the checkpoint has.
func (s *Sources) addMonths(ctx context.Context, r *Record, partition int, head tlog.Tree) error {
	if r.Checkpoint == nil {
		return nil
	}
	leaves, err := s.Leaves.Months(ctx, partition, r.Account, head)
	if err != nil {
		return err
	}
	list, err := r.Checkpoint.Months(leaves)
	if err != nil {
		return fmt.Errorf("months of account %s: %w", r.Account, err)
	}
	for i, m := range list {
		r.Months = append(r.Months, Month{m, leaves[i]})
	}
	return nil
}

// total sets the totals by the newest leaf, which is that of the entry at a position.
func (s *Sources) total(ctx context.Context, r *Record, partition int, last signal.Position, head tlog.Tree) error {
	if !last.IsZero() {
		leaves, err := s.Leaves.OpenLeaves(ctx, partition, r.Account, []signal.Position{last}, head)
		if err != nil {
			return err
		}
		if r.Newest = leaves[0]; r.Newest != nil {
			counts, err := r.Checkpoint.Holds(r.Newest)
			if err != nil {
				return fmt.Errorf("count the signals of account %s: %w", r.Account, err)
			}
			r.Totals = record.Counts{Created: counts.Created, Closed: counts.Closed}
			return nil
		}
	}
	a, err := s.Leaves.Account(ctx, partition, r.Account)
	if signal.KindOf(err) == signal.KindNotFound {
		return nil
	}
	r.Totals = a.Counts
	return err
}

// sum sets what follows from the counts of the signals that are kept, and their statistics.
func (s *Sources) sum(
	ctx context.Context, r *Record, upTo signal.Position, counts map[signal.AgentID]catalogue.Count,
) error {
	own, err := s.Agents.Agents(ctx, r.Account)
	if err != nil {
		return err
	}
	names := map[signal.AgentID]string{}
	for _, a := range slices.Concat(signal.Agents(), own) {
		names[a.ID] = a.Name
	}
	var rest catalogue.Count
	for id, count := range counts {
		name, living := names[id]
		r.Agents = append(r.Agents, Agent{ID: id, Name: name, Removed: !living, Count: count})
		r.Created += count.Open + count.Closed
		r.Kept += count.Closed
	}
	slices.SortFunc(r.Agents, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(b.Closed, a.Closed), cmp.Compare(b.Open, a.Open), cmp.Compare(a.ID, b.ID))
	})
	if n := len(r.Agents); n > MaxAgents {
		for _, a := range r.Agents[MaxAgents:] {
			rest.Open, rest.Closed = rest.Open+a.Open, rest.Closed+a.Closed
		}
		r.Agents, r.Others = r.Agents[:MaxAgents], n-MaxAgents
	}
	ids := make([]signal.AgentID, len(r.Agents))
	for i := range ids {
		ids[i] = r.Agents[i].ID
	}
	did, err := s.Scorecards.Standing(ctx, r.Account, upTo, ids)
	if err != nil {
		return err
	}
	r.All, r.Committed, r.Curve = did.All, did.Committed, did.Curve
	for i := range r.Agents {
		r.Agents[i].Statistics = did.Agents[r.Agents[i].ID]
	}
	if r.Others > 0 {
		r.Rest = &Agent{Count: rest, Statistics: did.Rest}
	}
	return nil
}

// show returns the signals at locations with their leaves.
func (s *Sources) show(ctx context.Context, r *Record, at []signal.Location, head tlog.Tree) ([]Signal, error) {
	found, err := s.Signals.SignalsAt(ctx, r.Account, at)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var positions []signal.Position
	places := map[signal.SignalID][2]int{} // of creation and closing among them; an open signal has none of the second
	for _, l := range at {
		n := len(positions)
		if positions = append(positions, l.Created); l.Closed.IsZero() {
			places[l.ID] = [2]int{n, -1}
		} else {
			positions = append(positions, l.Closed)
			places[l.ID] = [2]int{n, n + 1}
		}
	}
	leaves, err := s.Leaves.OpenLeaves(ctx, s.Leaves.Partition(r.Account), r.Account, positions, head)
	if err != nil {
		return nil, err
	}
	list := make([]Signal, 0, len(found))
	for _, x := range found {
		created, closed := places[x.ID][0], places[x.ID][1]
		shown := Signal{Signal: x, CreatedLeaf: leaves[created]}
		if closed >= 0 {
			shown.ClosedLeaf = leaves[closed]
		} else if x.Closing != nil {
			continue // it has closed since the checkpoint, and follows as closed
		}
		if x.Closing != nil && x.Closing.ExitPrice != nil && x.Levels != nil {
			exit := *x.Closing.ExitPrice
			won := strategy.R(x.Direction, *x.Levels, exit)
			shown.R, shown.RNet = &won, new(won-strategy.CostR(*x.Levels, exit, s.Cost(x.Asset)))
		}
		var told struct {
			Reasoning string `json:"reasoning"`
			Source    string `json:"source"`
		}
		_ = json.Unmarshal(x.Metadata, &told) // members of other types are missing ones
		shown.Reasoning = told.Reasoning
		if told.Source != "" {
			r.Sources = append(r.Sources, told.Source)
		}
		list = append(list, shown)
	}
	return list, nil
}
