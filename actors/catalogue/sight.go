package catalogue

import "github.com/agentsignal/agentsignal/actors/signal"

// sight is what a view has of an account, by the numbers of its rows. A nil sight has everything.
type sight struct {
	allPairs, allGroups bool
	pairs, groups       []bool // of pairs and of groups of assets, by number; unused where all are seen
}

// sightOf returns what a view has of an account, nil of a view that has everything.
func sightOf(a *account, view *signal.View) *sight {
	if view.All() {
		return nil
	}
	s := &sight{allPairs: view.Agents.All() && view.Strategies.All(), allGroups: view.Assets.All()}
	s.grow(a, view)
	return s
}

// grow adds the pairs and the groups that the account has got since. view is that of s.
func (s *sight) grow(a *account, view *signal.View) {
	if s == nil {
		return
	}
	for n := len(s.pairs); !s.allPairs && n < len(a.pairs.list); n++ {
		p := &a.pairs.list[n]
		s.pairs = append(s.pairs, view.SeesStrategy(p.agent, p.strategy))
	}
	for n := len(s.groups); !s.allGroups && n < len(a.assets.names); n++ {
		s.groups = append(s.groups, view.SeesAsset(a.assets.names[n]))
	}
}

func (s *sight) seesPair(n int) bool { return s == nil || s.allPairs || s.pairs[n] }

func (s *sight) seesGroup(n uint32) bool { return s == nil || s.allGroups || s.groups[n] }

// sees reports whether s has the rows of a kind and a group.
func (s *sight) sees(of kind, group uint32) bool { return s.seesPair(of.pair()) && s.seesGroup(group) }

// seen reports whether a view has the rows of a kind and a group of an account, without the sight of the view.
func seen(a *account, view *signal.View, of kind, group uint32) bool {
	p := &a.pairs.list[of.pair()]
	return view.Sees(p.agent, a.assets.names[group], p.strategy)
}
