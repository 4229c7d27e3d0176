package export

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// errScorecard is the finding that a scorecard is not that of the record.
var errScorecard = errors.New("the scorecard is not that of the record")

// afterCosts are the members of rows that depend on the costs, which are a setting.
var afterCosts = []string{"expectancy_r", "profit_factor", "max_drawdown_r", "total_r", "break_even_net"}

// maxRounding is how much two figures may differ that were rounded to six decimals after sums in
// another order.
const maxRounding = 2e-6

// Card is what was compared of a scorecard.
type Card struct {
	backtest.Statistics
	counts
	Results int     // closed signals with prices in the record
	Costs   float64 // of a signal on average, in R, by which the scorecard differs from the record
}

// counts are those of a scorecard from the record: the closed signals whose closing had its leaf when it was
// made, and those of them whose creation was in a checkpoint before they ended, by the word of the service.
type counts struct {
	Recorded  int `json:"recorded"`
	Committed int `json:"committed"`
}

// card is the answer of GET /v1/scorecard.
type card struct {
	Statistics map[string]any `json:"statistics"`
	counts
	Strategies []map[string]any `json:"strategies"`
	Groups     []struct {
		group
		Statistics map[string]any `json:"statistics"`
		counts
	} `json:"groups"`
}

// Card compares a scorecard of the whole account with the statistics of what was recorded. A
// scorecard that was made before the checkpoint is that of the first closings.
func (r *Record) Card(text []byte) (*Card, error) {
	var shown card
	if err := decode(text, "a scorecard, the answer of GET /v1/scorecard", &shown); err != nil {
		return nil, err
	}
	count, ok := shown.Statistics["count"].(float64)
	if !ok || count < 0 || count != math.Trunc(count) {
		return nil, fmt.Errorf("%w: it is not a scorecard, the answer of GET /v1/scorecard", errForm)
	}
	if n := len(r.results); int(count) > n {
		return nil, fmt.Errorf(
			"%w: it has %.0f closed signals with prices and the record %d, which ends with a checkpoint: "+
				"write both by agentsignal record export --scorecard",
			errScorecard,
			count,
			n,
		)
	}
	slices.SortFunc(r.results, func(a, b result) int { return cmp.Compare(a.number, b.number) })
	first := r.results[:int(count)]
	c := &Card{Results: len(r.results)}
	groups, of := map[group][]backtest.Outcome{}, map[group]counts{}
	all := make([]backtest.Outcome, len(first))
	for i := range first {
		all[i] = first[i].Outcome
		key := first[i].group.folded()
		groups[key] = append(groups[key], all[i])
		if i < shown.Recorded { // leaves are in the order of the closings
			n := of[key]
			n.add(&first[i])
			of[key] = n
			c.add(&first[i])
		}
	}
	c.Statistics = backtest.Summarize(all)
	if err := compare(shown.Statistics, &c.Statistics, "all signals"); err != nil {
		return nil, err
	}
	if err := shown.compare(c.counts, "all signals"); err != nil {
		return nil, err
	}
	if err := shown.compareStrategies(first); err != nil {
		return nil, err
	}
	least := 0 // signals of a row, if more groups may have been left out
	if len(shown.Groups) >= backtest.MaxGroups {
		least = len(first)
	}
	for i := range shown.Groups {
		g := &shown.Groups[i]
		least = min(least, len(groups[g.folded()]))
		s := backtest.Summarize(groups[g.folded()])
		if err := compare(g.Statistics, &s, g.String()); err != nil {
			return nil, err
		}
		if err := g.compare(of[g.folded()], g.String()); err != nil {
			return nil, err
		}
		delete(groups, g.folded())
	}
	for g, list := range groups {
		if len(list) <= least {
			continue
		}
		return nil, fmt.Errorf(
			"%w: %s has %d closed signals in the record, and no row in the scorecard",
			errScorecard,
			&g,
			len(list),
		)
	}
	if net, ok := shown.Statistics["expectancy_r"].(float64); ok {
		c.Costs = float64(c.MeanR) - net
	}
	return c, nil
}

// compareStrategies compares the rows of strategies with what was recorded.
func (c *card) compareStrategies(results []result) error {
	want := strategiesOf(results)
	for _, shown := range c.Strategies {
		name, _ := shown["strategy"].(string)
		agent, _ := shown["agent_id"].(string)
		of := fmt.Sprintf("%.64s %.64s", agent, name)
		at := slices.IndexFunc(want, func(s scorecard.Strategy) bool { return string(s.Agent) == agent && s.Strategy == name })
		if at < 0 {
			return fmt.Errorf("%w: it has a row of %s, and the record has no closed signals of that", errScorecard, of)
		}
		if err := compare(shown, &want[at], of); err != nil {
			return err
		}
		want = slices.Delete(want, at, at+1)
	}
	if len(want) > 0 {
		return fmt.Errorf("%w: %.64s %.64s has %d closed signals in the record, and no row among the strategies", errScorecard,
			want[0].Agent, want[0].Strategy, want[0].Count)
	}
	return nil
}

// strategiesOf returns the rows of the strategies of the account's agents.
func strategiesOf(results []result) []scorecard.Strategy {
	type key struct {
		agent    signal.AgentID
		strategy string
	}
	tallies := map[key]*scorecard.StrategyTally{}
	var rows []scorecard.Strategy
	byEnd := slices.Clone(results)
	slices.SortStableFunc(byEnd, func(a, b result) int { return cmp.Compare(a.At, b.At) })
	for i := range byEnd {
		r := &byEnd[i]
		if r.Agent.BuiltIn() {
			continue
		}
		k := key{r.Agent, r.Strategy}
		if tallies[k] == nil {
			tallies[k] = &scorecard.StrategyTally{}
		}
		tallies[k].Add(&r.Outcome, r.own)
	}
	for k, t := range tallies {
		row := t.Strategy()
		row.Agent, row.Strategy = k.agent, k.strategy
		rows = append(rows, row)
	}
	return rows
}

func (n *counts) add(r *result) {
	n.Recorded++
	if r.committed {
		n.Committed++
	}
}

// compare compares shown counts with those of the record.
func (n *counts) compare(recorded counts, of string) error {
	if *n != recorded {
		return fmt.Errorf("%w: committed of %s is %d of %d, and %d of %d of what was recorded", errScorecard,
			of, n.Committed, n.Recorded, recorded.Committed, recorded.Recorded)
	}
	return nil
}

// folded returns the group with the asset as groups are compared.
func (g group) folded() group {
	g.Asset = spelling.Fold(g.Asset)
	return g
}

// String names a group.
func (g *group) String() string {
	return fmt.Sprintf("%.64s %.64s %.64s %s %s", g.Agent, g.Strategy, g.Asset, g.Timeframe, g.Risk)
}

// compare compares the members of a row with those of the record.
func compare(shown map[string]any, recorded any, of string) error {
	text, err := json.Marshal(recorded)
	if err != nil {
		return err
	}
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := shown[name]; !slices.Contains(afterCosts, name) && !near(got, want[name]) {
			return fmt.Errorf(
				"%w: %s of %s is %.200v, and %.200v of what was recorded",
				errScorecard,
				name,
				of,
				got,
				want[name],
			)
		}
	}
	return nil
}

// near reports whether two values of JSON are equal except for the rounding of numbers.
func near(a, b any) bool {
	switch b := b.(type) {
	case float64:
		a, ok := a.(float64)
		return ok && math.Abs(a-b) <= maxRounding
	case []any:
		a, ok := a.([]any)
		return ok && slices.EqualFunc(a, b, near)
	case map[string]any:
		a, ok := a.(map[string]any)
		return ok && maps.EqualFunc(a, b, near)
	}
	return reflect.DeepEqual(a, b)
}
