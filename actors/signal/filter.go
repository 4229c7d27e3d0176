package signal

import "slices"

// Limits of a Filter. Its other lists name known values, each once, so they need no limit.
const (
	MaxFilterAssets = 100
	// MaxFilterR bounds the least expected R in both directions.
	MaxFilterR = 100
)

// Directions lists the directions.
var Directions = []Direction{Long, Short}

// Initial holds the values of a signal at its creation that later events do not show. Every
// event of a signal carries them, so that a Filter passes all of its events or none.
type Initial struct {
	Confidence float64
	// ExpectedRNet is the member expected_r_net of the metadata; nil without one.
	ExpectedRNet *float64
}

// Filter selects signals by their values at creation. A member without a value accepts all.
type Filter struct {
	Assets        []string // as the client wrote them
	Agents        []AgentID
	Strategies    []string
	Directions    []Direction
	MinConfidence *float64
	// MinExpectedRNet also excludes signals without an expected R: content, and those
	// stored before events carried Initial.
	MinExpectedRNet *float64
}

// Traits are the values of a signal that a Filter compares, without its asset.
type Traits struct {
	Agent     AgentID
	Strategy  string
	Direction Direction
	Initial
}

// Traits returns the traits of the signal that e concerns; zero without a signal. An event
// stored before events carried Initial has the confidence of its listing, which at the
// creation is the initial one, and no expected R.
func (e *Event) Traits() Traits {
	l := e.Listing
	if l == nil {
		return Traits{}
	}
	t := Traits{Agent: l.Agent, Strategy: l.Strategy, Direction: l.Direction}
	if t.Confidence = l.Confidence; e.Initial != nil {
		t.Initial = *e.Initial
	}
	return t
}

// ByAssetOnly reports whether f passes every signal of its assets.
func (f *Filter) ByAssetOnly() bool {
	return len(f.Agents)+len(f.Strategies)+len(f.Directions) == 0 && f.MinConfidence == nil && f.MinExpectedRNet == nil
}

// Empty reports whether f passes every signal.
func (f *Filter) Empty() bool { return len(f.Assets) == 0 && f.ByAssetOnly() }

// Passes reports whether a signal with the traits t passes f. The caller compares assets,
// because their spelling is a matter of the market.
func (f *Filter) Passes(t *Traits) bool {
	switch {
	case len(f.Agents) > 0 && !slices.Contains(f.Agents, t.Agent),
		len(f.Strategies) > 0 && !slices.Contains(f.Strategies, t.Strategy),
		len(f.Directions) > 0 && !slices.Contains(f.Directions, t.Direction),
		f.MinConfidence != nil && t.Confidence < *f.MinConfidence:
		return false
	}
	return f.MinExpectedRNet == nil || t.ExpectedRNet != nil && *t.ExpectedRNet >= *f.MinExpectedRNet
}

// AgentIDs returns the IDs of the catalogue, in its order.
func AgentIDs() []AgentID {
	var ids []AgentID
	for _, a := range Agents() {
		ids = append(ids, a.ID)
	}
	return ids
}

// Strategies returns the strategies of all agents, in the order of the catalogue.
func Strategies() []string {
	var names []string
	for _, a := range Agents() {
		names = append(names, a.Strategies...)
	}
	return names
}
