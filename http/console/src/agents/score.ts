import type { Scorecard, Statistics, StrategyScore } from "../api/types";

/** Returns what was measured of the strategies of an agent of the account. */
export const measured = (card: Scorecard | null, agent: string): StrategyScore[] => (card?.strategies ?? []).filter((s) => s.agent_id === agent);

/** How the closed signals of an agent, or of one of its strategies, did. */
export interface Score {
  count: number;
  wins: number;
  net: number; // R after costs
  /** The hit rate at which they gain nothing after costs; null where all or none gained. */
  breakEven: number | null;
}

/**
 * Returns the hit rate at which signals with these gains and losses gain nothing after costs. Gains over losses with the hit
 * rate say how much larger a gain is than a loss.
 */
function breakEven(wins: number, count: number, gains: number, losses: number): number | null {
  if (wins === 0 || wins === count || gains <= 0 || losses <= 0) return null;
  const gain = gains / wins;
  const loss = losses / (count - wins);
  return loss / (gain + loss);
}

/** Returns the gains and the losses after costs, which total and profit factor determine. */
function flows(s: Statistics): [gains: number, losses: number] {
  const factor = s.profit_factor;
  if (factor === null) return [Math.max(s.total_r, 0), 0]; // no loss
  if (factor === 0) return [0, -s.total_r];
  if (factor === 1) return [0, 0]; // as much of both: how much is not known
  const losses = s.total_r / (factor - 1);
  return [losses * factor, losses];
}

/** Adds the groups of a scorecard that have the same key. */
export function scores(groups: Scorecard["groups"], key: (g: Scorecard["groups"][number]) => string): Map<string, Score> {
  const sums = new Map<string, { count: number; wins: number; net: number; gains: number; losses: number }>();
  for (const g of groups) {
    const sum = sums.get(key(g)) ?? { count: 0, wins: 0, net: 0, gains: 0, losses: 0 };
    const [gains, losses] = flows(g.statistics);
    sum.count += g.statistics.count;
    sum.wins += g.statistics.wins;
    sum.net += g.statistics.total_r;
    sum.gains += gains;
    sum.losses += losses;
    sums.set(key(g), sum);
  }
  return new Map([...sums].map(([name, s]) => [name, { count: s.count, wins: s.wins, net: s.net, breakEven: breakEven(s.wins, s.count, s.gains, s.losses) }]));
}
