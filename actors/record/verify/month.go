package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Month is the text of a leaf with the results of the signals of an account that closed in a month: those closings whose
// numbers follow the ones in the leaf of a month before, up to Closed. Nothing recomputes the sums once retention has removed
// the signals.
type Month struct {
	Version int        `json:"v"`
	Kind    string     `json:"kind"` // "month"
	Account string     `json:"account"`
	Created int64      `json:"created"` // signals of the account created so far
	Closed  int64      `json:"closed"`  // as closed
	Month   string     `json:"month"`   // in UTC, as 2006-01
	Agents  []AgentSum `json:"agents"`  // by their names; one with the name "*" has those of many others
}

// AgentSum has the results of closed signals of an agent, in R. Its sum before costs is Gains - Losses.
type AgentSum struct {
	Agent   string  `json:"agent_id"`
	Closed  int64   `json:"closed"`
	Priced  int64   `json:"priced"` // of these, with prices: the others have no result
	Won     int64   `json:"won"`    // before costs
	Gains   float64 `json:"gains"`  // 0 or more, as are the next three; before costs
	Losses  float64 `json:"losses"`
	Costs   float64 `json:"costs"`
	Targets float64 `json:"targets"` // what they would have gained at their targets
}

// Sum returns the sums of all agents.
func (m *Month) Sum() (all AgentSum) {
	for _, a := range m.Agents {
		all.Closed, all.Priced, all.Won = all.Closed+a.Closed, all.Priced+a.Priced, all.Won+a.Won
		all.Gains, all.Losses, all.Costs, all.Targets = all.Gains+a.Gains, all.Losses+a.Losses, all.Costs+a.Costs,
			all.Targets+a.Targets
	}
	return all
}

// Text returns the text of the leaf.
func (m *Month) Text() string {
	whole := *m
	whole.Version, whole.Kind = 2, "month"
	text, _ := json.Marshal(whole) // its numbers are finite
	return string(text)
}

// ParseMonth is the inverse of Text. It accepts nothing that Text would not write.
func ParseMonth(text string) (*Month, error) {
	m := &Month{}
	err := json.Unmarshal([]byte(text), m)
	if err == nil {
		_, err = time.Parse("2006-01", m.Month)
	}
	if all := m.Sum(); err != nil || m.Account == "" || len(m.Agents) == 0 || m.Closed < all.Closed || m.Created < m.Closed {
		return nil, ErrLeaf
	}
	for i, a := range m.Agents {
		if a.Agent == "" || i > 0 && m.Agents[i-1].Agent >= a.Agent || a.Won < 0 || a.Priced < a.Won || a.Closed < a.Priced ||
			a.Closed < 1 || a.Closed > math.MaxInt32 || min(a.Gains, a.Losses, a.Costs, a.Targets) < 0 {
			return nil, ErrLeaf
		}
	}
	if m.Text() != text {
		return nil, ErrLeaf
	}
	return m, nil
}

// Months checks that logs of the checkpoint have the leaves, which are all those of the months of an account, in their order,
// and returns what they sum: together all closings up to the last of them, each once.
func (h *Heads) Months(leaves []*Leaf) ([]*Month, error) {
	var list []*Month
	before := &Month{}
	for _, l := range leaves {
		if err := h.contains(l); err != nil {
			return nil, err
		}
		m, err := ParseMonth(l.Text)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 && (m.Account != before.Account || m.Month < before.Month) {
			return nil, fmt.Errorf("%w: months of two accounts, or not in their order", ErrDiffers)
		}
		if n := m.Sum().Closed; m.Closed-n != before.Closed {
			return nil, fmt.Errorf("%w: %s sums %d closings up to number %d, and the leaf before ends with number %d", ErrMissing,
				m.Month, n, m.Closed, before.Closed)
		}
		before = m
		list = append(list, m)
	}
	return list, nil
}

// contains checks that a log of the checkpoint has the leaf.
func (h *Heads) contains(l *Leaf) error {
	if l.Log < 0 || l.Log >= len(h.Logs) || l.Index < 0 {
		return fmt.Errorf("%w: there is no log %d", ErrNotIn, l.Log)
	}
	tree := h.Logs[l.Log]
	switch {
	case l.Index >= tree.N:
		return ErrTooNew
	case l.Size != tree.N:
		return fmt.Errorf("%w: the proof is for another checkpoint, with %d leaves", ErrNotIn, l.Size)
	}
	if tlog.CheckRecord(l.Proof, tree.N, tree.Hash, l.Index, tlog.RecordHash(Commit(l.Salt, l.Text))) != nil {
		return ErrNotIn
	}
	return nil
}
