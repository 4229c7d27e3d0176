package catalogue

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Count is how many signals of an agent are listed.
type Count struct{ Open, Closed int }

// Counts returns the number of listed signals by agent, as the totals of lists are. An agent
// without signals may be missing.
func (c *Catalogue) Counts(ctx context.Context, id signal.AccountID) (map[signal.AgentID]Count, error) {
	a, err := c.account(ctx, id)
	if err != nil || a == nil {
		return nil, err
	}
	counts := map[signal.AgentID]Count{}
	oldest := c.oldest()
	a.mu.RLock()
	defer a.mu.RUnlock()
	total := func(agent signal.AgentID, status signal.Status) int {
		m, ok := a.match(c.strategies, &Query{Agent: agent, Status: status}, a.rows.after(oldest))
		if !ok {
			return 0
		}
		return m.total()
	}
	for _, agent := range c.strategies.agents {
		if _, ok := counts[agent]; !ok {
			counts[agent] = Count{Open: total(agent, signal.Open), Closed: total(agent, signal.Closed)}
		}
	}
	return counts, nil
}

// SuggestAssets returns the assets that a name in a filter of the account looks like, the nearest first,
// if neither an asset nor a signal of the account has that name. The result is empty if the filter may
// have the name: signals with it may come, such as those of a subject of content. So it is while the
// lists cannot be read.
func (c *Catalogue) SuggestAssets(ctx context.Context, id signal.AccountID, name string) []string {
	near := c.suggest(ctx, name)
	if len(near) == 0 {
		return nil
	}
	a, err := c.account(ctx, id)
	if err != nil {
		return nil
	}
	if a != nil {
		a.mu.RLock()
		defer a.mu.RUnlock()
		if _, known := a.filter(c.strategies, &Query{Asset: name}); known {
			return nil
		}
	}
	return near
}
