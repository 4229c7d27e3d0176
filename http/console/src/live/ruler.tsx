import { signal } from "@preact/signals";
import type { SignalState } from "../api/types";
import * as format from "../format";
import { priceText } from "./prices";
import { costOf, resultAt, riskOf } from "./store";

/** The R values at both ends of a ruler. Rows share one scale, so that their entries lie below each other. */
export interface Scale {
  from: number;
  to: number;
}

// The margin at both ends, in R: a stop may be missed by some of it.
const margin = 0.25;

export const rowScale = signal<Scale>({ from: -1 - margin, to: 2 + margin });

const maxScale = 5;

/** Fits the shared scale to the farthest target of a list. */
export function fitScale(targets: Iterable<number>): void {
  let far = 1;
  for (const t of targets) far = Math.max(far, Math.min(maxScale, t));
  const to = Math.ceil(far * 2 - 0.05) / 2 + margin;
  if (to !== rowScale.peek().to) rowScale.value = { from: -1 - margin, to };
}

/** Returns the target of a signal in R, or null without prices. */
export function targetOf(s: SignalState): number | null {
  return resultAt(s, s.take_profit);
}

/** Returns where a value lies on a scale in percent, at most at its ends. */
export function at(scale: Scale, r: number): number {
  const share = (r - scale.from) / (scale.to - scale.from);
  return Math.min(1, Math.max(0, share)) * 100;
}

/** Returns a scale on which all of a signal can be seen. */
export function scaleFor(s: SignalState, now: number | null): Scale {
  const target = targetOf(s) ?? 1;
  const values = [-1, target, s.r ?? 0, s.mfe_r ?? 0, s.mae_r ?? 0, now ?? 0];
  return { from: Math.min(...values) - 0.08, to: Math.max(...values) + 0.08 };
}

function sentence(s: SignalState, target: number, now: number | null): string {
  const levels = `stop at minus 1 R, target at ${format.r(target, 1)}`;
  if (s.status === "closed") return `${levels}; closed at ${format.r(s.r)}`;
  return now === null ? `${levels}; no price yet` : `${levels}; now at ${format.r(now)}`;
}

const px = (value: number) => `${value.toFixed(2)}%`;

/** Stop, entry, target and the price now, in multiples of the risk. */
export function Ruler({ s, price }: { s: SignalState; price: number | null }) {
  const scale = rowScale.value;
  const target = targetOf(s);
  if (riskOf(s) === 0 || target === null) return <span class="muted small">{s.entry_price === null ? "" : "no prices"}</span>;
  const closed = s.status === "closed";
  const value = closed ? s.r : resultAt(s, price);
  const zero = at(scale, 0);
  const stop = at(scale, -1);
  const goal = at(scale, target);
  const off = value !== null && (value < scale.from || value > scale.to);
  const color = value === null || Math.abs(value) < 0.005 ? "flat" : value > 0 ? "up" : "down";
  return (
    <div class="ruler" role="img" aria-label={sentence(s, target, value)}>
      {closed && s.mae_r !== null && s.mfe_r !== null && (
        <i class="range" style={{ left: px(at(scale, s.mae_r)), width: px(at(scale, s.mfe_r) - at(scale, s.mae_r)) }} />
      )}
      <i class="loss" style={{ left: px(stop), width: px(zero - stop) }} />
      <i class="gain" style={{ left: px(zero), width: px(goal - zero) }} />
      <i class="stop" style={{ left: px(stop) }} />
      <i class="entry" style={{ left: px(zero) }} />
      <i class="target" style={{ left: px(goal) }} />
      {value !== null && (
        <i
          key={s.signal_id} // the dot of another signal would slide to its place
          class={`dot ${color} ${closed ? "end" : ""} ${off ? (value > 0 ? "off right" : "off") : ""}`}
          style={{ left: px(at(scale, value)) }}
        />
      )}
    </div>
  );
}

/** The ruler of a signal's page, with its prices. */
export function BigRuler({ s, price }: { s: SignalState; price: number | null }) {
  const target = targetOf(s);
  if (riskOf(s) === 0 || target === null) return null;
  const closed = s.status === "closed";
  const value = closed ? s.r : resultAt(s, price);
  const scale = scaleFor(s, value);
  const left = (r: number) => ({ left: px(at(scale, r)) });
  const cost = costOf(s);
  const color = value === null || Math.abs(value) < 0.005 ? "flat" : value > 0 ? "up" : "down";
  return (
    <div class="ruler big" role="img" aria-label={sentence(s, target, value)}>
      {closed && s.mae_r !== null && s.mfe_r !== null && (
        <i class="range" style={{ ...left(s.mae_r), width: px(at(scale, s.mfe_r) - at(scale, s.mae_r)) }} />
      )}
      <i class="loss" style={{ ...left(-1), width: px(at(scale, 0) - at(scale, -1)) }} />
      <i class="gain" style={{ ...left(0), width: px(at(scale, target) - at(scale, 0)) }} />
      <i class="stop" style={left(-1)} />
      <i class="entry" style={left(0)} title={cost === null ? "" : `costs ${format.r(cost)}`} />
      <i class="target" style={left(target)} />
      {value !== null && <i class={`dot ${color} ${closed ? "end" : ""}`} style={left(value)} />}
      <span class="above" style={left(-1)}>−1 R</span>
      <span class="above" style={left(0)}>entry</span>
      <span class="above" style={left(target)}>{format.r(target, 1)}</span>
      <span class="below" style={left(-1)}>{priceText(s.stop_loss, s)}</span>
      <span class="below" style={left(0)}>{priceText(s.entry_price, s)}</span>
      <span class="below" style={left(target)}>{priceText(s.take_profit, s)}</span>
    </div>
  );
}

/** The scale above the rows. */
export function Axis() {
  const scale = rowScale.value;
  return (
    <div class="axis" aria-hidden="true">
      <span style={{ left: px(at(scale, -1)) }}>−1 R</span>
      <span style={{ left: px(at(scale, 0)) }}>entry</span>
      {[1, 2, 3, 4].filter((n) => n < scale.to).map((n) => (
        <span key={n} style={{ left: px(at(scale, n)) }}>
          +{n} R
        </span>
      ))}
    </div>
  );
}
