package signals

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Started runs are in a sorted set of their partition, by the millisecond at which their end
// must be recorded. The append script adds a run with agent.started and removes it with its end.
// A member is the text "ACCOUNT RUN AGENT".

// decodeDue reads a member that eventlog.DueMember has made.
func decodeDue(member string) (signal.RunDue, error) {
	account, rest, ok := strings.Cut(member, " ")
	run, agent, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || account == "" || run == "" || agent == "" || strings.Contains(agent, " ") {
		return signal.RunDue{}, fmt.Errorf("decode due run: %q is not of the known form", member)
	}
	return signal.RunDue{Account: signal.AccountID(account), Run: signal.RunID(run), Agent: signal.AgentID(agent)}, nil
}

// Runs reads the runs that are under way.
type Runs struct{ c *redisclient.Client }

// RunsUnderWay reports whether any run of partition p has not ended.
func (s *Runs) RunsUnderWay(ctx context.Context, p int) (bool, error) {
	n, err := s.c.RDB.ZCard(ctx, s.c.RunsDueKey(p)).Result()
	return n > 0, redisclient.Failed(err, "count runs of partition %d", p)
}

// OverdueRuns returns at most limit runs of partition p whose end should have been recorded
// before the given time, the oldest first. An unreadable entry is logged and postponed.
func (s *Runs) OverdueRuns(ctx context.Context, p int, before time.Time, limit int) ([]signal.RunDue, error) {
	found, err := s.c.RDB.ZRangeByScoreWithScores(ctx, s.c.RunsDueKey(p), &redis.ZRangeBy{
		Min: "-inf", Max: "(" + strconv.FormatInt(before.UnixMilli(), 10), Count: int64(limit)}).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read due runs of partition %d", p)
	}
	var runs []signal.RunDue
	for _, z := range found {
		member, _ := z.Member.(string)
		due, err := decodeDue(member)
		if err != nil {
			s.c.Log.Error("a due run is not readable", "component", "persistence", "partition", p, "err", err)
			if err := s.c.Postpone(ctx, s.c.RunsDueKey(p), before, member); err != nil {
				return nil, err
			}
			continue
		}
		due.At = codec.TimeOfMilli(int64(z.Score))
		runs = append(runs, due)
	}
	return runs, nil
}
