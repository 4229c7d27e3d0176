import type { Scorecard, StrategyScore } from "../api/types";

/** Returns what was measured of the strategies of an agent of the account. */
export const measured = (card: Scorecard | null, agent: string): StrategyScore[] => (card?.strategies ?? []).filter((s) => s.agent_id === agent);

/** How the closed signals of an agent, or of one of its strategies, did. */
export interface Score {
  count: number;
  wins: number;
  net: number; // R after costs
  /** The hit rate at which they gain nothing after costs. */
  breakEven: number;
}

/** Returns how a strategy did. */
export const scoreOf = (s: StrategyScore): Score => ({ count: s.count, wins: s.wins, net: s.expectancy_r! * s.count, breakEven: s.break_even_net! });

/** Adds the groups of each agent. Their break-even together is that at which each of them gains nothing. */
export function scores(groups: Scorecard["groups"]): Map<string, Score> {
  const sums = new Map<string, Score>();
  for (const { agent_id, statistics: s } of groups) {
    const sum = sums.get(agent_id) ?? { count: 0, wins: 0, net: 0, breakEven: 0 };
    const count = sum.count + s.count;
    sums.set(agent_id, {
      count,
      wins: sum.wins + s.wins,
      net: sum.net + s.total_r,
      breakEven: (sum.breakEven * sum.count + s.break_even_net! * s.count) / count,
    });
  }
  return sums;
}
