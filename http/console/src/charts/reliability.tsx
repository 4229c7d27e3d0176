import * as format from "../format";
import { type Bucket, hitsOf, minShare } from "./odds";

const size = 300;
const pad = { left: 44, right: 12, top: 12, bottom: 34 };

/** Returns the tenths between which all that matters lies, so that a narrow range of chances fills the picture. */
export function rangeOf(used: Bucket[]): [number, number] {
  const values = used.filter((b) => b.count >= minShare).flatMap((b) => [b.from, b.to, ...format.wilson(hitsOf(b), b.count)]);
  if (values.length === 0) return [0, 1];
  const from = Math.max(0, Math.floor(Math.min(...values) * 10 - 0.5) / 10);
  const to = Math.min(1, Math.ceil(Math.max(...values) * 10 + 0.5) / 10);
  return [from, to];
}

/** Returns the places of shares in the picture, which end at its scale, and where that has its ticks. */
export function scaleOf(from: number, to: number) {
  const clamp = (share: number) => Math.min(1, Math.max(0, (share - from) / (to - from)));
  const steps = to - from > 0.6 ? 4 : Math.round((to - from) * 10);
  return {
    x: (share: number) => pad.left + clamp(share) * (size * 1.5 - pad.left - pad.right),
    y: (share: number) => pad.top + (1 - clamp(share)) * (size - pad.top - pad.bottom),
    ticks: Array.from({ length: steps + 1 }, (_, i) => from + ((to - from) * i) / steps),
  };
}

/** What was said against what was seen, with intervals; buckets with few signals are hollow. */
export function Reliability({ buckets }: { buckets: Bucket[] }) {
  const used = buckets.filter((b) => b.count > 0);
  const [from, to] = rangeOf(used);
  const { x, y, ticks } = scaleOf(from, to);
  const seen = used.filter((b) => (b.mean_confidence ?? b.from) >= from && (b.mean_confidence ?? b.to) <= to);
  return (
    <figure>
      <svg viewBox={`0 0 ${size * 1.5} ${size}`} role="img" aria-label="Reliability: the share that closed in profit against the chance that was said. The table below has the numbers." style={{ width: "100%", maxHeight: "340px" }}>
        {ticks.map((t) => (
          <g key={t} style={{ fill: "var(--muted)", fontSize: "11px" }}>
            <line x1={x(from)} x2={x(to)} y1={y(t)} y2={y(t)} style={{ stroke: "var(--line)" }} />
            <text x={x(from) - 8} y={y(t) + 4} text-anchor="end">{Math.round(t * 100)} %</text>
            <text x={x(t)} y={size - 14} text-anchor={t === to ? "end" : "middle"}>{Math.round(t * 100)} %</text>
          </g>
        ))}
        <text x={x((from + to) / 2)} y={size - 1} text-anchor="middle" style={{ fill: "var(--muted)", fontSize: "11px" }}>said</text>
        <text x={x(from) + 6} y={y(to) + 14} style={{ fill: "var(--muted)", fontSize: "11px" }}>seen</text>
        <line x1={x(from)} y1={y(from)} x2={x(to)} y2={y(to)} style={{ stroke: "var(--line-strong)", strokeDasharray: "4 4" }} />
        {seen.map((b) => {
          const [low, high] = format.wilson(hitsOf(b), b.count);
          const cx = x(b.mean_confidence ?? (b.from + b.to) / 2);
          const few = b.count < minShare;
          return (
            <g key={b.from}>
              <line x1={cx} x2={cx} y1={y(low)} y2={y(high)} style={{ stroke: few ? "var(--line-strong)" : "var(--accent)", strokeWidth: 2 }} />
              <circle cx={cx} cy={y(b.hit_rate ?? 0)} r={few ? 4 : 5.5} style={few ? { fill: "var(--surface)", stroke: "var(--line-strong)", strokeWidth: 2 } : { fill: "var(--accent)" }} />
            </g>
          );
        })}
      </svg>
      <details>
        <summary>As a table</summary>
        <div class="scroll">
          <table>
            <thead><tr><th>Said</th><th class="num">Closed</th><th class="num">In profit</th><th class="num">95 %</th></tr></thead>
            <tbody>
              {used.map((b) => {
                const [low, high] = format.wilson(hitsOf(b), b.count);
                return (
                  <tr key={b.from}>
                    <td>{Math.round(b.from * 100)} to {Math.round(b.to * 100)} %</td>
                    <td class="num">{format.count(b.count)}</td>
                    <td class="num">{b.count < minShare ? format.count(hitsOf(b)) : format.percent(b.hit_rate)}</td>
                    <td class="num">{b.count < minShare ? format.none : `${Math.round(low * 100)} to ${Math.round(high * 100)} %`}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}
