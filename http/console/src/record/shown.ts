// Checks what a public record shows: each of its signals, and that none is missing among them.

import type { Entry, Leaf } from "./verify";
import { openLeaf, verify } from "./verify";

/** A signal as GET /r/{slug}.json shows it. */
export interface ShownSignal {
  signal: Record<string, unknown> & { signal_id: string };
  created: Leaf | null;
  closed: Leaf | null;
}

/** A month that is over, with what its leaf sums. */
export interface ShownMonth {
  month: string;
  agents: (Record<string, unknown> & { agent_id: string; closed: number })[];
  leaf: Leaf;
}

/** The parts of GET /r/{slug}.json that are checked. */
export interface ShownRecord {
  account_id: string;
  totals: { created: number; closed: number; proved: boolean };
  months: ShownMonth[];
  closed_signals: ShownSignal[];
  open_signals: ShownSignal[];
  proof: { checkpoint: string; heads: Entry | null; newest: Leaf | null; keys: string[] };
}

export interface Findings {
  /** Why a signal is not as it was recorded, by its id; empty for one that is. */
  signals: Map<string, string>;
  /** What is wrong with the record as a whole. */
  faults: string[];
  at: string; // of the checkpoint
  key: string; // that has signed it
  /** false: the browser has no Ed25519, so that only hashes were checked. */
  signed: boolean;
}

type Subtle = NonNullable<Parameters<typeof verify>[3]>;

/** Checks a record; null: the browser offers no hashes, as the page came over plain HTTP. */
export async function check(record: ShownRecord, subtle: Subtle | null = globalThis.crypto?.subtle ?? null): Promise<Findings | null> {
  if (!subtle) return null;
  const { checkpoint, heads, newest } = record.proof;
  const keys = record.proof.keys.join("\n");
  const found: Findings = { signals: new Map(), faults: [], at: "", key: "", signed: true };
  if (!heads) return { ...found, faults: ["the service has signed no checkpoint yet"] };
  const ofAccount = (leaf: Leaf) => (JSON.parse(leaf.text) as { account?: unknown }).account === record.account_id;

  for (const s of [...record.closed_signals, ...record.open_signals]) {
    const id = s.signal.signal_id;
    if (!s.created || ("closed_at" in s.signal && !s.closed)) {
      found.signals.set(id, "it has no proof");
      continue;
    }
    const verdict = await verify({ checkpoint, heads, created: s.created, closed: s.closed }, keys, s.signal, subtle);
    let why = "";
    if (verdict.kind === "proved") {
      Object.assign(found, { at: verdict.at, key: verdict.key, signed: found.signed && verdict.signed });
      if (!ofAccount(s.created)) why = "it is of another account";
      if (verdict.unproved.length > 0) why = `its leaves do not have ${verdict.unproved.join(", ")}`;
    } else if (verdict.kind === "differs") {
      why = `${verdict.member} is ${String(verdict.shown)} and was recorded as ${String(verdict.recorded)}`;
    } else if (verdict.kind === "broken") {
      why = `${verdict.part}: ${verdict.why}`;
    }
    found.signals.set(id, why);
  }

  // Closings are numbered, so that one that is left out leaves a gap.
  let next = record.totals.closed;
  for (const s of record.closed_signals) {
    const number = s.closed ? (JSON.parse(s.closed.text) as { closed: number }).closed : next;
    if (number !== next) {
      found.faults.push(`closing number ${next} is not shown`);
      break;
    }
    next--;
  }
  // Months have each closing up to the last of them, once.
  let summed = 0;
  for (const m of record.months) {
    const opened = await openLeaf(checkpoint, heads, m.leaf, keys, subtle);
    if ("why" in opened) {
      found.faults.push(`${m.month}: ${opened.why}`);
      break;
    }
    const { month, agents } = JSON.parse(m.leaf.text) as ShownMonth;
    summed += m.agents.reduce((n, a) => n + a.closed, 0);
    if (month !== m.month || JSON.stringify(agents) !== JSON.stringify(m.agents) || opened.account !== record.account_id) {
      found.faults.push(`${m.month} is not what its leaf has recorded`);
      break;
    }
    if (opened.closed !== summed) {
      found.faults.push(`closings before number ${String(opened.closed)} are missing in the months up to ${m.month}`);
      break;
    }
  }
  if (newest) {
    const opened = await openLeaf(checkpoint, heads, newest, keys, subtle);
    if ("why" in opened) {
      found.faults.push(`newest leaf: ${opened.why}`);
    } else if (opened.created !== record.totals.created || opened.closed !== record.totals.closed || opened.account !== record.account_id) {
      found.faults.push("the newest leaf does not have the totals");
    }
  } else if (record.totals.created > 0) {
    found.faults.push("no leaf proves the totals");
  }
  return found;
}
