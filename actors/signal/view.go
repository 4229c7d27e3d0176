package signal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"weak"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

// MaxViewNames is how many names one member of a view may have.
const MaxViewNames = 100

// Names is a set of names, as JSON a list. Its zero value is no list: it has every name. An empty list has none.
type Names struct {
	list []string // sorted, each once
	some bool     // only those in list
}

// NamesOf returns the set of the names. Without names it is the set that has none.
func NamesOf(names ...string) Names {
	return Names{slices.Compact(slices.Sorted(slices.Values(names))), true}
}

// All reports whether n has every name.
func (n Names) All() bool { return !n.some }

// List returns the names, sorted. It is empty if n has every name, too: see All.
func (n Names) List() []string { return n.list }

// Has reports whether n has the name.
func (n Names) Has(name string) bool {
	if !n.some {
		return true
	}
	_, ok := slices.BinarySearch(n.list, name)
	return ok
}

// And returns the names that both have.
func (n Names) And(other Names) Names {
	switch {
	case n.All():
		return other
	case other.All():
		return n
	}
	var both []string
	for _, name := range n.list {
		if other.Has(name) {
			both = append(both, name)
		}
	}
	return Names{both, true}
}

// IsZero reports whether n has every name, for the option omitzero of JSON.
func (n Names) IsZero() bool { return n.All() }

// MarshalJSON returns the list of the names. A set of every name is left out by the option omitzero, and otherwise null.
func (n Names) MarshalJSON() ([]byte, error) {
	if n.some && n.list == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(n.list)
}

// UnmarshalJSON reads a list of names; null is refused, since an absent list has another meaning than an empty one.
func (n *Names) UnmarshalJSON(b []byte) error {
	var list *[]string
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	if list == nil {
		return fmt.Errorf("read names: null is no list")
	}
	*n = NamesOf(*list...)
	return nil
}

// View is what a reader sees of its account: the signals of which the agent, the asset and the strategy are all in its sets.
// Views are made by NewView and do not change. Those with the same names are one value, so pointers to them compare as they do.
// A nil view sees everything: it is that of an account's login and of keys that are no reader's.
type View struct {
	Agents     Names `json:"agents,omitzero"`
	Assets     Names `json:"assets,omitzero"` // catalogue names, or subjects of content; compared without case
	Strategies Names `json:"strategies,omitzero"`

	id     string
	assets Names // folded
}

// views has every view that is in use, by its id. Those that are not are taken out when their number may have doubled,
// so that a new view costs the same however many there are.
var views struct {
	mu    sync.Mutex
	byID  map[string]weak.Pointer[View]
	sweep int // at this length of byID
}

// NewView returns the view of the names.
func NewView(agents, assets, strategies Names) *View {
	v := &View{Agents: agents, Assets: assets, Strategies: strategies}
	if !assets.All() {
		var folded []string
		for _, name := range assets.list {
			folded = append(folded, spelling.Fold(name))
		}
		v.assets = NamesOf(folded...)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("encode view: " + err.Error()) // cannot happen: it has lists of texts
	}
	v.id = string(b)
	views.mu.Lock()
	defer views.mu.Unlock()
	if known := views.byID[v.id].Value(); known != nil {
		return known
	}
	if views.byID == nil {
		views.byID = make(map[string]weak.Pointer[View])
	}
	if len(views.byID) >= views.sweep {
		maps.DeleteFunc(views.byID, func(_ string, other weak.Pointer[View]) bool { return other.Value() == nil })
		views.sweep = max(64, 2*len(views.byID))
	}
	views.byID[v.id] = weak.Make(v)
	return v
}

// ViewsInUse returns how many different views this process has in use.
func ViewsInUse() int {
	views.mu.Lock()
	defer views.mu.Unlock()
	n := 0
	for _, v := range views.byID {
		if v.Value() != nil {
			n++
		}
	}
	return n
}

// ParseView returns the view that String has written.
func ParseView(text string) (*View, error) {
	var v View
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("read view: %w", err)
	}
	return NewView(v.Agents, v.Assets, v.Strategies), nil
}

// String returns the view as JSON. Equal views have equal texts.
func (v *View) String() string { return v.id }

// All reports whether v sees everything, as a nil view does.
func (v *View) All() bool {
	return v == nil || v.Agents.All() && v.Assets.All() && v.Strategies.All()
}

// Sees reports whether v has the signals of an agent and one of its strategies about an asset.
func (v *View) Sees(agent AgentID, asset, strategy string) bool {
	return v.SeesStrategy(agent, strategy) && v.SeesAsset(asset)
}

// SeesStrategy reports whether v has a strategy of an agent.
func (v *View) SeesStrategy(agent AgentID, strategy string) bool {
	return v == nil || v.Agents.Has(string(agent)) && v.Strategies.Has(strategy)
}

// Agent returns what v shows of an agent: its strategies that v has, and nothing of how it is run. It is false if v
// has none of them. A nil view shows the agent as it is.
func (v *View) Agent(a Agent) (Agent, bool) {
	if v == nil {
		return a, true
	}
	seen := Agent{ID: a.ID, Account: a.Account, Name: a.Name, Category: a.Category, Description: a.Description, Status: a.Status}
	for _, s := range a.Strategies {
		if v.SeesStrategy(a.ID, s) {
			seen.Strategies = append(seen.Strategies, s)
		}
	}
	return seen, len(seen.Strategies) > 0
}

// FoldedAssets returns the assets of v as spelling.Fold writes them.
func (v *View) FoldedAssets() Names { return v.assets }

// SeesAsset reports whether v has the asset, or the subject of content.
func (v *View) SeesAsset(name string) bool {
	return v == nil || v.assets.All() || v.assets.Has(spelling.Fold(name))
}
