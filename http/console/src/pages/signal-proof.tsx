import type { SignalState } from "../api/types";
import * as format from "../format";
import { riskOf } from "../live/store";
import { Panel } from "../ui/kit";

interface Check {
  what: string;
  listed: number;
  recomputed: number;
  text: (v: number) => string;
}

/** Recomputes what follows from the levels and the exit alone. */
export function recompute(s: SignalState): Check[] {
  if (s.entry_price === null || s.exit_price === null || s.status !== "closed") return [];
  const sign = s.direction === "long" ? 1 : -1;
  const gain = sign * (s.exit_price - s.entry_price);
  const checks: Check[] = [];
  const add = (what: string, listed: number | null, recomputed: number, text: Check["text"]) =>
    listed !== null && checks.push({ what, listed, recomputed, text });
  add("gain of one unit", s.pnl_absolute, gain, (v) => format.plain(v));
  add("gain / entry", s.pnl_percent, (gain / s.entry_price) * 100, (v) => format.change(v, 4));
  if (riskOf(s) > 0) add("gain / |entry − stop|", s.r, gain / riskOf(s), (v) => format.r(v, 4));
  return checks;
}

const agrees = (c: Check) => Math.abs(c.listed - c.recomputed) <= 1e-4 * Math.max(1, Math.abs(c.listed));

/** What can be checked, here and by the command line. */
export function Proof({ s }: { s: SignalState }) {
  const checks = recompute(s);
  return (
    <Panel title="Proof">
      <div class="body stack">
        <details>
          <summary>What can be recomputed</summary>
          <div class="stack">
            {checks.length > 0 && (
              <table>
                <thead><tr><th>From the levels</th><th class="num">Here</th><th class="num">Listed</th><th>Same</th></tr></thead>
                <tbody>
                  {checks.map((c) => (
                    <tr key={c.what}>
                      <td>{c.what}</td>
                      <td class="num">{c.text(c.recomputed)}</td>
                      <td class="num">{c.text(c.listed)}</td>
                      <td>{agrees(c) ? <span class="up">✓ yes</span> : <span class="down">✕ no</span>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
            <p class="soft">
              <code>agentsignal audit</code> recomputes direction, levels, confidence and indicators of stored signals from the stored
              bars, and names those that differ.
            </p>
            <dl class="pairs">
              <dt>Signal</dt>
              <dd><code>{s.signal_id}</code></dd>
            </dl>
          </div>
        </details>
        <details>
          <summary>As the API answers</summary>
          <pre class="well" tabIndex={0}>{JSON.stringify(s, null, 2)}</pre>
        </details>
      </div>
    </Panel>
  );
}
