import { signal, type Signal } from "@preact/signals";
import type { Direction, Metadata, SignalState } from "../api/types";
import type { Message } from "../stream/client";

/** One signal as a cell: changing it redraws its row and nothing else. */
export type Row = Signal<SignalState>;

/** The number of signals that the page keeps. */
export const capacity = 10_000;

interface NewData {
  signal_id: string;
  agent_id: string;
  asset: string;
  strategy: SignalState["strategy"];
  direction: Direction;
  confidence: number;
  entry_price: number | null;
  stop_loss: number | null;
  take_profit: number | null;
  metadata: Metadata;
  created_at: string;
}

interface ClosedData {
  signal_id: string;
  close_reason: SignalState["close_reason"];
  exit_price: number | null;
  pnl_percent: number | null;
  pnl_absolute: number | null;
  duration_minutes: number;
}

/** What a message of the stream did to the signals. */
export type Effect = "added" | "updated" | "closed" | "none";

/**
 * Rows in the order of a time and then of their ids. Signals come almost in that order, so that a change is made close
 * to an end and nothing has to be sorted.
 */
class Ordered {
  private readonly keys: string[] = []; // ascending
  private readonly rows: Row[] = [];

  /** Both times are ISO texts in UTC, which sort as they are. */
  constructor(private readonly timeOf: (s: SignalState) => string) {}

  add(row: Row): void {
    const key = this.keyOf(row.peek());
    const at = this.find(key);
    this.keys.splice(at, 0, key);
    this.rows.splice(at, 0, row);
  }

  remove(s: SignalState): void {
    const key = this.keyOf(s);
    const at = this.find(key);
    if (this.keys[at] !== key) return;
    this.keys.splice(at, 1);
    this.rows.splice(at, 1);
  }

  oldest(): Row | undefined {
    return this.rows[0];
  }

  newestFirst(): Row[] {
    return this.rows.toReversed();
  }

  private keyOf(s: SignalState): string {
    return `${this.timeOf(s)} ${s.signal_id}`;
  }

  /** Returns the first place whose key is not less. */
  private find(key: string): number {
    let [from, to] = [0, this.keys.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.keys[middle]! < key) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

/** The newest signals, at most `capacity`, and those that the reader still sees. */
export class Store {
  private readonly rows = new Map<string, Row>();
  private readonly open = new Ordered((s) => s.created_at);
  private readonly closed = new Ordered((s) => s.closed_at ?? "");

  /** Rows beyond the capacity that are shown until the list moves. They still change. */
  private readonly kept = new Map<string, Row>();

  /** isShown reports whether a row is in the list as the reader sees it. */
  constructor(private readonly isShown: (id: string) => boolean = () => false) {}

  get size(): number {
    return this.rows.size;
  }

  get(id: string): Row | undefined {
    return this.rows.get(id) ?? this.kept.get(id);
  }

  ids(): IterableIterator<string> {
    return this.rows.keys();
  }

  /** The rows that are open or closed, the newest first. */
  newestFirst(status: SignalState["status"]): Row[] {
    return (status === "open" ? this.open : this.closed).newestFirst();
  }

  remove(id: string): void {
    this.kept.delete(id);
    const row = this.rows.get(id);
    if (!row) return;
    this.rows.delete(id);
    this.place(row.peek()).remove(row.peek());
  }

  /** Forgets the rows that were kept because they were shown. */
  release(): void {
    this.kept.clear();
  }

  /** Records a signal as the API lists it and reports whether it is a new one. */
  put(s: SignalState): boolean {
    const row = this.rows.get(s.signal_id);
    if (!row) {
      const added = this.kept.get(s.signal_id) ?? signal(s); // the cell that is drawn
      added.value = s;
      this.kept.delete(s.signal_id);
      this.rows.set(s.signal_id, added);
      this.place(s).add(added);
      this.trim();
      return true;
    }
    // A page of the list may be older than a message of the stream.
    if (row.peek().status === "closed" && s.status === "open") return false;
    if (s.status === "open" && Date.parse(s.updated_at) < Date.parse(row.peek().updated_at)) return false;
    this.change(row, s);
    return false;
  }

  /** Applies a message of the stream. */
  apply(m: Message): Effect {
    switch (m.type) {
      case "signal.new":
        return this.put(fromNew(m.data as NewData)) ? "added" : "none";
      case "signal.updated": {
        const data = m.data as { signal_id: string; confidence: number; updated_at: string };
        const row = this.get(data.signal_id);
        if (!row || row.peek().status === "closed" || data.updated_at < row.peek().updated_at) return "none";
        row.value = { ...row.peek(), confidence: data.confidence, updated_at: data.updated_at };
        return "updated";
      }
      case "signal.closed": {
        const data = m.data as ClosedData;
        const row = this.get(data.signal_id);
        if (!row || row.peek().status === "closed") return "none";
        this.change(row, close(row.peek(), data, m.timestamp ?? new Date().toISOString()));
        return "closed";
      }
    }
    return "none";
  }

  private place(s: SignalState): Ordered {
    return s.status === "open" ? this.open : this.closed;
  }

  /** Changes a row, and its place where its time is another one. */
  private change(row: Row, s: SignalState): void {
    if (this.rows.get(s.signal_id) !== row) {
      row.value = s;
      return;
    }
    this.place(row.peek()).remove(row.peek());
    row.value = s;
    this.place(s).add(row);
  }

  /** Drops closed signals, the oldest first, then open ones. */
  private trim(): void {
    while (this.rows.size > capacity) {
      const row = (this.closed.oldest() ?? this.open.oldest())!;
      const id = row.peek().signal_id;
      this.remove(id);
      if (this.isShown(id)) this.kept.set(id, row);
    }
  }
}

function fromNew(d: NewData): SignalState {
  return {
    ...d,
    status: "open",
    updated_at: d.created_at,
    expires_at: "",
    closed_at: null,
    close_reason: null,
    exit_price: null,
    pnl_percent: null,
    pnl_absolute: null,
    duration_minutes: null,
    initial_confidence: d.confidence,
    final_confidence: null,
    r: null,
    mfe_r: null,
    mae_r: null,
  } as SignalState;
}

function close(s: SignalState, d: ClosedData, at: string): SignalState {
  const risk = riskOf(s);
  return {
    ...s,
    status: "closed",
    closed_at: at,
    updated_at: at,
    close_reason: d.close_reason,
    exit_price: d.exit_price,
    pnl_percent: d.pnl_percent,
    pnl_absolute: d.pnl_absolute,
    duration_minutes: d.duration_minutes,
    final_confidence: s.confidence,
    confidence: s.initial_confidence,
    r: d.pnl_absolute !== null && risk > 0 ? d.pnl_absolute / risk : null,
  };
}

/** The distance from entry to stop, or 0 without prices. */
export function riskOf(s: SignalState): number {
  if (s.entry_price === null || s.stop_loss === null) return 0;
  return Math.abs(s.entry_price - s.stop_loss);
}

/** The result in R if the signal ended at a price, or null without prices. */
export function resultAt(s: SignalState, price: number | null | undefined): number | null {
  const risk = riskOf(s);
  if (risk === 0 || s.entry_price === null || price === null || price === undefined) return null;
  return ((s.direction === "long" ? 1 : -1) * (price - s.entry_price)) / risk;
}

/** The costs of entry and exit in R, from what the signal's estimate assumed for them. */
export function costOf(s: SignalState, exit: number | null = s.entry_price): number | null {
  const { expected_r: before, expected_r_net: after } = s.metadata ?? {};
  if (before === undefined || after === undefined || !s.entry_price || exit === null) return null;
  return ((before - after) * (s.entry_price + exit)) / (2 * s.entry_price);
}

/** The result after costs, or null where it is not known. */
export function netOf(s: SignalState): number | null {
  const cost = costOf(s, s.exit_price);
  return s.r === null || cost === null ? null : s.r - cost;
}

/** Whether the figure is a probability: that of a text is the share of its checks that pass. */
export const isProbability = (s: SignalState) => s.entry_price !== null && s.metadata?.measure !== "checks_passed";
