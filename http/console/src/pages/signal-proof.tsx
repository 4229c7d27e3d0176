import { useState } from "preact/hooks";
import { ApiError, get } from "../api/client";
import type { Audit, SignalState } from "../api/types";
import * as format from "../format";
import { riskOf } from "../live/store";
import type { Leaf, SignalProof, Verdict } from "../record/verify";
import { verify } from "../record/verify";
import { Panel, Show, Time, useLoad } from "../ui/kit";

interface Check {
  what: string;
  listed: number;
  recomputed: number;
  /** The unit of the last digit that is listed. */
  unit: number;
  text: (v: number) => string;
}

/** Recomputes what follows from the levels and the exit alone. */
export function recompute(s: SignalState): Check[] {
  if (s.entry_price === null || s.exit_price === null || s.status !== "closed") return [];
  const sign = s.direction === "long" ? 1 : -1;
  const gain = sign * (s.exit_price - s.entry_price);
  const checks: Check[] = [];
  const add = (what: string, listed: number | null, recomputed: number, unit: number, text: Check["text"]) =>
    listed !== null && checks.push({ what, listed, recomputed, unit, text });
  add("gain of one unit", s.pnl_absolute, gain, 1e-8, (v) => format.plain(v));
  add("gain / entry", s.pnl_percent, (gain / s.entry_price) * 100, 1e-4, (v) => format.change(v, 4));
  if (riskOf(s) > 0) add("gain / |entry − stop|", s.r, gain / riskOf(s), 1e-4, (v) => format.r(v, 4));
  return checks;
}

/** Reports whether the two differ by no more than rounding. */
export const agrees = (c: Check) => Math.abs(c.listed - c.recomputed) <= c.unit + 1e-9 * Math.abs(c.listed);

/** Returns null where the service answers with a status that is expected. */
async function unless<T>(status: number, load: Promise<T>): Promise<T | null> {
  try {
    return await load;
  } catch (error) {
    if (error instanceof ApiError && error.status === status) return null;
    throw error;
  }
}

const notSigned = 409;
const notFound = 404;

/** Loads the proof of a signal and checks it here. */
function Recorded({ s }: { s: SignalState }) {
  const checked = useLoad(`${s.signal_id} ${s.status}`, async (abort): Promise<Verdict | { kind: "waiting" }> => {
    const path = `/v1/signals/${encodeURIComponent(s.signal_id)}/proof`;
    const [proof, keys] = await Promise.all([unless(notSigned, get<SignalProof>(path, {}, abort)), get<string>("/v1/log/key", {}, abort)]);
    if (!proof) return { kind: "waiting" };
    // The signal may have closed since it was loaded.
    const shown = proof.closed && s.status === "open" ? await get<SignalState>(path.replace(/\/proof$/, ""), {}, abort) : s;
    return verify(proof, keys, shown);
  });
  return (
    <div class="stack" aria-live="polite">
      <Show of={checked} lines={2}>{(v) => <Judged v={v} closed={s.status === "closed"} />}</Show>
      <div class="row"><button type="button" onClick={() => void checked.reload()}>Check again</button></div>
    </div>
  );
}

function Place({ what, leaf }: { what: string; leaf: Leaf }) {
  return (
    <>
      <dt>{what}</dt>
      <dd>leaf {format.count(leaf.index)} of log {leaf.log}, in a tree of {format.count(leaf.size)} leaves</dd>
    </>
  );
}

const text = (value: unknown) => (value === undefined ? "missing" : JSON.stringify(value));

/** What the check has found, in words. */
function Judged({ v, closed }: { v: Verdict | { kind: "waiting" }; closed: boolean }) {
  switch (v.kind) {
    case "waiting":
      return <p><strong>Not yet in a checkpoint.</strong> One follows within seconds.</p>;
    case "unavailable":
      return <p><strong>This browser cannot check it here:</strong> it offers no hashes to a page that came over plain HTTP. Use HTTPS, or <code>agentsignal verify</code>.</p>;
    case "differs":
      return (
        <p>
          <strong class="down">✕ Does not match the record:</strong> <code>{v.member}</code> is shown as <code>{text(v.shown)}</code>{" "}
          and was recorded as <code>{text(v.recorded)}</code>.
        </p>
      );
    case "broken":
      return <p><strong class="down">✕ Not proved.</strong> The {v.part} does not hold: {v.why}.</p>;
    case "proved":
      return (
        <>
          {v.signed ? (
            <p><strong class="up">✓ Recorded and proved.</strong> It is shown as it was recorded{v.unproved.length > 0 && <>, except for what the record does not have: <code>{v.unproved.join(", ")}</code></>}.</p>
          ) : (
            <p><strong class="warn">Recorded, but not proved: this browser cannot check signatures.</strong> The hashes fit, and all members in the record are as shown here. <code>agentsignal verify</code> checks the signature.</p>
          )}
          {closed && !v.closed && <p><strong>Its closing is not yet in a checkpoint.</strong> One follows within seconds.</p>}
          <dl class="pairs">
            <Place what="Creation" leaf={v.created} />
            {v.closed && <Place what="Closing" leaf={v.closed} />}
            <dt>Checkpoint of</dt>
            <dd><Time at={v.at} /></dd>
            <dt>{v.signed ? "Signed by" : "Said to be by"}</dt>
            <dd><code class="break">{v.key}</code></dd>
          </dl>
          <p class="muted small">
            By the clock of this service it was recorded before that time, and it was not changed since. Leaves are counted from 0. That
            prices were those of the market is the word of the operator. The key comes from this service: compare it with one that you got
            before.
          </p>
        </>
      );
  }
}

/** What the last audit of all signals has recomputed. */
function Audited() {
  const last = useLoad("audit", async (abort) => ({ audit: await unless(notFound, get<Audit>("/v1/audit", {}, abort)) }));
  return (
    <Show of={last} lines={3}>
      {({ audit: a }) => (a === null ? (
        <p class="soft">There was no audit yet. <code>agentsignal audit</code> recomputes the stored signals from the stored bars.</p>
      ) : (
        <>
          <p class="soft">
            The audit of <Time at={a.at} /> recomputed from stored bars how signals of this account were made and how they ended:{" "}
            {a.differences_total === 0 ? <span class="up">nothing differs</span> : <strong class="down">{format.count(a.differences_total)} differences</strong>}.
          </p>
          <dl class="pairs">
            <dt>Made again from bars</dt>
            <dd>{format.count(a.recomputed)} of {format.count(a.signals)}</dd>
            <dt>Ends replayed or within the bars</dt>
            <dd>{format.count(a.ends_replayed + a.ends_held_against_bars)} of {format.count(a.closed)}</dd>
            <dt>Confidences published later</dt>
            <dd>{format.count(a.published_confidences.replayed + a.published_confidences.held)} of {format.count(a.published_confidences.final + a.published_confidences.updates)}</dd>
            <dt>Weather signals compared</dt>
            <dd>{format.count(a.outlooks_compared)}</dd>
            <dt>Same in a backtest</dt>
            <dd>{format.count(a.live_against_backtest.same)} of {format.count(a.live_against_backtest.replayed)}</dd>
            <dt>Recorded leaves missing or changed</dt>
            <dd>{format.count(a.record.differ)} of {format.count(a.record.created + a.record.closed)}</dd>
          </dl>
        </>
      ))}
    </Show>
  );
}

/** What can be checked, here and by the command line. */
export function Proof({ s }: { s: SignalState }) {
  const checks = recompute(s);
  const [record, setRecord] = useState(false);
  const [audit, setAudit] = useState(false);
  return (
    <Panel title="Proof">
      <div class="body stack">
        <details onToggle={(e) => e.currentTarget.open && setRecord(true)}>
          <summary>What was recorded</summary>
          {record && <Recorded s={s} />}
        </details>
        <details onToggle={(e) => e.currentTarget.open && setAudit(true)}>
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
            {audit && <Audited />}
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
