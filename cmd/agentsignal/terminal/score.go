package terminal

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// minShare is the number of closed signals from which people are shown shares. The console takes it from
// http/console/src/format.json, which the test of formats writes.
const minShare = 30

func scoreCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var q client.ScoreQuery
	var since string
	c := &cobra.Command{
		Use: "score", Short: "Show the scorecard of closed signals", Args: cobra.NoArgs,
		Long: fmt.Sprintf("Show the scorecard of the account's closed signals: the hit rate with its 95 %% interval\n"+
			"and the one that breaks even after costs, and results in R, the distance from entry to stop. Expectancy, profit\n"+
			"factor, total and drawdown are after costs. Rows of the strategies of your own agents have their skill, in log\n"+
			"odds, with its 95 %% interval. Of fewer than %d signals the text has counts and no shares, which would say\n"+
			"little.", minShare),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if since != "" {
				if q.Since, err = parseSince(since, time.Now(), time.Local); err != nil {
					return fmt.Errorf("--since: %w", err)
				}
			}
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			card, err := c.Scorecard(cmd.Context(), q)
			if err != nil {
				return remote.Explain(err)
			}
			return printScore(p, card)
		},
	}
	c.Flags().StringVar(&q.Asset, "asset", "", "only of this asset, by any of its names")
	c.Flags().StringVar(&q.Agent, "agent", "", "only of this agent, such as trading")
	c.Flags().StringVar(&q.Strategy, "strategy", "", "only of this strategy")
	c.Flags().StringVar(&q.Timeframe, "timeframe", "", "only of 1m, 5m, 1h or 1d")
	c.Flags().StringVar(&since, "since", "", sinceUsage)
	s.add(c, dataDir)
	return c
}

// printScore prints a scorecard: a line for all signals, and one for each strategy of an agent of the account and each group.
func printScore(p *printer, card *client.Scorecard) error {
	if p.form == formJSON {
		return p.JSON(card.Raw())
	}
	row := func(s *client.Statistics, total, drawdown *float64, first ...any) []any {
		var hits any = share{s.HitRate}
		low, high, needed, said, skill := s.Interval.Low, s.Interval.High, s.BreakEvenNet, s.MeanConfidence, s.BrierSkill
		if p.form == formText && s.Count < minShare {
			hits = cell{text: fmt.Sprintf("%d of %d", s.Wins, s.Count), right: true}
			low, high, needed, said, skill = nil, nil, nil, nil, nil
		}
		return append(first, s.Count, hits, share{low}, share{high}, share{needed}, share{said}, multiple{s.MeanR},
			multiple{s.ExpectancyR}, ratio(s.ProfitFactor), multiple{total}, multiple{drawdown}, ratio(skill))
	}
	whole := func(s *client.Statistics, first ...any) []any {
		return append(row(s, &s.TotalR, &s.MaxDrawdownR, first...), "", "", "")
	}
	rows := [][]any{whole(&card.Statistics, "all", "", "", "", "")}
	for i := range card.Strategies {
		s := &card.Strategies[i]
		rows = append(rows, append(row(&s.Statistics, nil, nil, s.Agent, s.Strategy, "", "", ""),
			ratio(s.Skill), ratio(s.SkillInterval.Low), ratio(s.SkillInterval.High)))
	}
	for i := range card.Groups {
		g := &card.Groups[i]
		rows = append(rows, whole(&g.Statistics, g.Agent, g.Strategy, g.Asset, g.Timeframe, g.Risk))
	}
	return p.table([]string{"agent_id", "strategy", "asset", "timeframe", "risk_level", "count", "hit_rate", "low", "high",
		"break_even_net", "mean_confidence", "mean_r", "expectancy_r", "profit_factor", "total_r", "max_drawdown_r",
		"brier_skill", "skill", "skill_low", "skill_high"}, rows)
}

// ratio returns a figure with two decimals.
func ratio(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', 2, 64)
}
