package catalogue

import (
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// maxPairs is the number of strategies that the built-in agents and all agents that an account may ever have
// registered have together: signals of removed agents stay listed.
var maxPairs = len(signal.Strategies()) + signal.MaxAgentsEver*signal.MaxAgentStrategies

// pairs numbers the agents with their strategies that the signals of an account have, and their names for filters.
type pairs struct {
	list    []pair
	numbers map[names]kind
	codes   map[string]uint16 // of the names of agents and strategies; 0 is no name
}

// names are those of an agent and of one of its strategies. Other agents may have a strategy of the same name.
type names struct {
	agent    signal.AgentID
	strategy string
}

type pair struct {
	names
	agentCode, strategyCode uint16
}

// number returns the number of a pair, a new one for a new pair. It is false if there would be too many.
func (p *pairs) number(agent signal.AgentID, strategy string) (kind, bool) {
	if n, ok := p.numbers[names{agent, strategy}]; ok {
		return n, true
	}
	if len(p.list) >= maxPairs {
		return 0, false
	}
	if p.numbers == nil {
		p.numbers, p.codes = map[names]kind{}, map[string]uint16{"": 0}
	}
	// The names may be parts of larger strings.
	key := names{signal.AgentID(strings.Clone(string(agent))), strings.Clone(strategy)}
	n := kind(len(p.list))
	p.numbers[key] = n
	p.list = append(p.list, pair{key, p.code(string(key.agent)), p.code(key.strategy)})
	return n, true
}

// code returns the code of a name, a new one for a new name.
func (p *pairs) code(name string) uint16 {
	if _, ok := p.codes[name]; !ok {
		p.codes[name] = uint16(len(p.codes))
	}
	return p.codes[name]
}
