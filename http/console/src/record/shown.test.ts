import { expect, test } from "vitest";
import type { ShownRecord, ShownSignal } from "./shown";
import { check } from "./shown";
import type { Leaf, SignalProof } from "./verify";
import made from "./verify.json";

interface Case { name: string; keys: string; months?: Leaf[]; proof: SignalProof; signal: Record<string, unknown> & { signal_id: string }; want: string }

const proved = (made as unknown as Case[]).find((c) => c.months)!;
const leaf = JSON.parse(proved.proof.closed!.text) as { account: string; created: number; closed: number };

/** Returns a record that shows the proved signal, with what its leaves have of it. */
function record(): ShownRecord {
  const { created, closed, heads, checkpoint } = structuredClone(proved.proof);
  const known = { ...JSON.parse(created.text), ...JSON.parse(closed!.text) } as Record<string, unknown>;
  const signal = Object.fromEntries(Object.entries(proved.signal).filter(([name]) => name !== "metadata" && name in known));
  const shown: ShownSignal = { signal: signal as ShownSignal["signal"], created, closed };
  return {
    account_id: leaf.account,
    totals: { created: leaf.created, closed: leaf.closed, proved: true },
    months: structuredClone(proved.months!).map((leaf) => {
      const { month, agents } = JSON.parse(leaf.text) as Pick<ShownRecord["months"][number], "month" | "agents">;
      return { month, agents, leaf };
    }),
    closed_signals: [shown],
    open_signals: [],
    proof: { checkpoint: checkpoint!, heads, newest: structuredClone(closed), keys: proved.keys.split("\n").filter(Boolean) },
  };
}

/** Returns what is found of a record with a change. */
async function found(change: (r: ShownRecord) => void): Promise<string[]> {
  const r = record();
  change(r);
  const f = (await check(r))!;
  return [...f.faults, ...[...f.signals.values()].filter(Boolean)];
}

test("a record that is shown as it was recorded has no fault", async () => {
  const f = (await check(record()))!;
  expect(f).toMatchObject({ faults: [], signed: true, key: "agentsignal-test" });
  expect([...f.signals]).toEqual([[proved.signal.signal_id, ""]]);
});

test.each<[string, (r: ShownRecord) => void, string]>([
  ["another price", (r) => { r.closed_signals[0]!.signal["exit_price"] = 1; }, "exit_price is 1 and was recorded as"],
  ["a member that no leaf has", (r) => { r.closed_signals[0]!.signal["luck"] = 1; }, "its leaves do not have luck"],
  ["another text of a leaf", (r) => { r.closed_signals[0]!.closed!.text += " "; }, "leaf: its text, salt, place or proof was changed"],
  ["no proof of the closing", (r) => { r.closed_signals[0]!.closed = null; r.closed_signals[0]!.signal["closed_at"] ??= "x"; }, "it has no proof"],
  ["a signal of another account", (r) => { r.account_id = "acc_other"; }, "it is of another account"],
  ["a closing that is left out", (r) => { r.totals.closed++; }, `closing number ${leaf.closed + 1} is not shown`],
  ["a better total", (r) => { r.totals.created++; }, "the newest leaf does not have the totals"],
  ["a better month", (r) => { r.months[1]!.agents[0]!["gains"] = 9; }, "2026-10 is not what its leaf has recorded"],
  ["a month that is left out", (r) => { r.months.shift(); }, "closings before number 6 are missing in the months up to 2026-10"],
  ["another leaf of a month", (r) => { r.months[0]!.leaf = r.closed_signals[0]!.created!; }, "2026-08 is not what its leaf has recorded"],
  ["another place of a month", (r) => { r.months[0]!.leaf.index++; }, "2026-08: leaf: its text, salt, place or proof was changed"],
  ["another newest leaf", (r) => { r.proof.newest!.index++; }, "newest leaf: leaf: "],
  ["no newest leaf", (r) => { r.proof.newest = null; }, "no leaf proves the totals"],
  ["another key", (r) => { r.proof.keys = []; }, "signature: none is by a key of"],
  ["no checkpoint", (r) => { r.proof.heads = null; }, "the service has signed no checkpoint yet"],
])("%s is found", async (_, change, want) => {
  expect((await found(change)).join("; ")).toContain(want);
});

test("a browser without hashes checks nothing", async () => {
  expect(await check(record(), null)).toBeNull();
});
