// Checks the proof of a signal as actors/record/verify does. verify.json, which a test of
// actors/record writes, has cases that both must judge alike.

type Bytes = Uint8Array<ArrayBuffer>;

/** A leaf of the log with the proof that the log has it. */
export interface Leaf {
  log: number;
  index: number;
  size: number;
  text: string;
  salt: string | null;
  proof: string[];
}

/** The last entry of the root log, with the proof that the log has it. */
export interface Entry {
  text: string;
  proof: string[] | null;
}

/** The answer to GET /v1/signals/{id}/proof. */
export interface SignalProof {
  checkpoint?: string;
  heads: Entry;
  created: Leaf;
  closed: Leaf | null;
}

export type Verdict =
  /** signed is false where the browser has no Ed25519: then only the hashes were checked. */
  | { kind: "proved"; signed: boolean; key: string; at: string; created: Leaf; closed: Leaf | null; unproved: string[] }
  | { kind: "differs"; member: string; shown: unknown; recorded: unknown }
  | { kind: "broken"; part: "checkpoint" | "signature" | "leaf"; why: string }
  /** The browser offers no hashes: the page came over plain HTTP. */
  | { kind: "unavailable" };

interface Log {
  size: number;
  root: string;
}

/** An entry of the root log. */
interface Heads {
  at: string;
  logs: Log[];
}

const maxLogs = 1024;
const maxNote = 16 << 10; // bytes
const maxSize = 2 ** 48; // leaves of a log

class Broken extends Error {
  readonly part: "checkpoint" | "signature" | "leaf";
  constructor(part: Broken["part"], why: string) {
    super(why);
    this.part = part;
  }
}

class Differs extends Error {
  readonly member: string;
  readonly shown: unknown;
  readonly recorded: unknown;
  constructor(member: string, shown: unknown, recorded: unknown) {
    super(member);
    this.member = member;
    this.shown = shown;
    this.recorded = recorded;
  }
}

const utf8 = (text: string): Bytes => new TextEncoder().encode(text);
const encode = (b: Bytes): string => btoa(String.fromCharCode(...b));

function decode(text: string): Bytes {
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

function join(...parts: Bytes[]): Bytes {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

type Subtle = Pick<SubtleCrypto, "digest" | "importKey" | "sign" | "verify">;

/** Hashes of a Merkle tree (RFC 6962). */
class Hasher {
  readonly subtle: Subtle;
  constructor(subtle: Subtle) {
    this.subtle = subtle;
  }
  async sum(...parts: Bytes[]): Promise<Bytes> {
    return new Uint8Array(await this.subtle.digest("SHA-256", join(...parts)));
  }
  record = (data: Bytes) => this.sum(Uint8Array.of(0), data);
  node = (left: Bytes, right: Bytes) => this.sum(Uint8Array.of(1), left, right);

  /** Returns what a log stores of a text. */
  async leaf(salt: string | null, text: string): Promise<Bytes> {
    // A zero byte is the same key as none, which browsers refuse.
    const bytes = decode(salt ?? "");
    const raw = bytes.length > 0 ? bytes : Uint8Array.of(0);
    const key = await this.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    return this.record(new Uint8Array(await this.subtle.sign("HMAC", key, utf8(text))));
  }

  /** Returns the root of a tree of n leaves that has a leaf at an index, by the other hashes on its way; null: too few or too many. */
  async rootByProof(n: number, index: number, leaf: Bytes, proof: Bytes[]): Promise<Bytes | null> {
    if (n === 1) return proof.length === 0 ? leaf : null;
    const other = proof.at(-1);
    if (!other) return null;
    const k = split(n);
    const inLeft = index < k;
    const here = await this.rootByProof(inLeft ? k : n - k, inLeft ? index : index - k, leaf, proof.slice(0, -1));
    return here && (inLeft ? this.node(here, other) : this.node(other, here));
  }
}

/** Returns the largest power of two below n, which is at least 2. */
function split(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

const isHash = (text: string) => decode(text).length === 32 && encode(decode(text)) === text;
const isSize = (n: number) => n >= 0 && n <= maxSize;

/** Reads the text of a checkpoint: the size and the root of the root log. It accepts nothing that a service would not write. */
function parse(text: string): Log {
  const [origin, size, root] = text.split("\n");
  const log = { size: Number(size), root: root ?? "" };
  if (!isSize(log.size) || !isHash(log.root) || `${origin}\n${log.size}\n${log.root}\n` !== text) {
    throw new Broken("checkpoint", "it is not a checkpoint");
  }
  return log;
}

/** Reads the entry that the root log ends with. */
async function readHeads(log: Log, entry: Entry, h: Hasher): Promise<Heads> {
  const proof = (entry.proof ?? []).map(decode);
  const root = log.size > 0 ? await h.rootByProof(log.size, log.size - 1, await h.record(utf8(entry.text)), proof) : null;
  if (!root || encode(root) !== log.root) throw new Broken("checkpoint", "the root log does not end with these heads");
  const [kind, time, , , ...lines] = entry.text.split("\n");
  const logs = lines.slice(0, -1).map((l) => {
    const [size, hash] = l.split(" ");
    return { size: Number(size), root: hash ?? "" };
  });
  const at = time?.replace(/^time /, "") ?? "";
  if (kind !== "heads" || logs.length > maxLogs || !logs.every((l) => isSize(l.size) && isHash(l.root)) || Number.isNaN(Date.parse(at))) {
    throw new Broken("checkpoint", "its heads are not readable");
  }
  return { at, logs };
}

interface Key {
  name: string;
  id: string; // the first four bytes of a hash, in base64
  bytes: Bytes;
}

/** Reads a verifier key, name+hash+base64; null: of another algorithm, or no key. */
async function readKey(text: string, h: Hasher): Promise<Key | null> {
  const [name, hash, ...rest] = text.split("+");
  const bytes = decode(rest.join("+"));
  if (!name || bytes.length !== 33 || bytes[0] !== 1) return null;
  const id = (await h.sum(utf8(`${name}\n`), bytes)).slice(0, 4);
  const hex = Array.from(id, (b) => b.toString(16).padStart(2, "0")).join("");
  return hex === hash ? { name, id: encode(id), bytes: bytes.slice(1) } : null;
}

/** Reports whether a signature is right; null: the browser has no Ed25519. */
async function verifies(subtle: Subtle, key: Key, signature: Bytes, text: string): Promise<boolean | null> {
  let imported: CryptoKey;
  try {
    imported = await subtle.importKey("raw", key.bytes, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if ((error as DOMException).name === "NotSupportedError") return null;
    return false;
  }
  return subtle.verify({ name: "Ed25519" }, imported, signature, utf8(text));
}

/** Checks the signatures of a checkpoint, of which one must be by a key of the service. */
async function open(note: string, keys: string, h: Hasher): Promise<{ root: Log; key: string; signed: boolean }> {
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || note.length > maxNote || !note.endsWith("\n")) throw new Broken("checkpoint", "it has no signatures");
  const text = note.slice(0, end + 1);
  const origin = text.slice(0, text.indexOf("\n"));
  const known = (await Promise.all(keys.split("\n").filter(Boolean).map((k) => readKey(k, h)))).filter((k) => k !== null);
  let by: { key: string; signed: boolean } | null = null;
  for (const l of note.slice(end + 2).split("\n")) {
    const [, name, base64] = l.match(/^— (\S+) (\S+)$/) ?? [];
    const signature = decode(base64 ?? "");
    const key = known.find((k) => k.name === name && k.id === encode(signature.slice(0, 4)));
    if (!key) continue; // of a witness, or of a key that the service does not use any more
    const right = await verifies(h.subtle, key, signature.slice(4), text);
    if (right === false) throw new Broken("signature", `it is not by ${key.name}`);
    if (key.name === origin) by ??= { key: key.name, signed: right === true };
  }
  if (!by) throw new Broken("signature", `none is by a key of ${origin}`);
  return { root: parse(text), ...by };
}

type Members = Record<string, unknown>;
type Kind = "created" | "closed" | "month";

/** Checks that a log of the checkpoint has a leaf, and returns what it has recorded. */
async function holds(c: Heads, leaf: Leaf, kind: Kind, h: Hasher): Promise<Members> {
  const log = c.logs[leaf.log];
  if (!log || leaf.size !== log.size || leaf.index < 0 || leaf.index >= log.size) {
    throw new Broken("leaf", "its proof is for another checkpoint");
  }
  const proof = leaf.proof.map(decode);
  const root = await h.rootByProof(log.size, leaf.index, await h.leaf(leaf.salt, leaf.text), proof);
  if (proof.some((p) => p.length !== 32) || !root || encode(root) !== log.root) {
    throw new Broken("leaf", "its text, salt, place or proof was changed");
  }
  const recorded = JSON.parse(leaf.text) as Members;
  if (recorded["kind"] !== kind) throw new Broken("leaf", kind === "month" ? "it is not that of a month" : `it does not say that the signal was ${kind}`);
  const other = Object.keys(recorded).find((name) => !ofSignal[kind].includes(name) && !ofLeaf.includes(name));
  if (other) throw new Broken("leaf", `one of this kind has no ${other}`);
  return recorded;
}

/** What leaves of each kind may have of a signal, or of a month. */
const ofSignal: Record<Kind, string[]> = {
  created: ["signal_id", "agent_id", "asset", "strategy", "timeframe", "risk_level", "direction", "initial_confidence", "entry_price", "stop_loss", "take_profit", "created_at", "expires_at"],
  closed: ["signal_id", "final_confidence", "mfe_r", "mae_r", "closed_at", "close_reason", "exit_price"],
  month: ["month", "agents"],
};
/** What leaves have of themselves, and not of the signal. */
const ofLeaf = ["v", "kind", "account", "created", "closed", "signed_leaves", "previous_created_at", "metadata", "metadata_sha256"];
/** The precision of members that are computed from prices. */
const precision: Record<string, number> = { r: 1e-9, mfe_r: 5e-5, mae_r: 5e-5, pnl_percent: 5.1e-5, pnl_absolute: 5.1e-9 };

/** Returns what leaves have recorded of a signal, and what follows from that. */
function derive(created: Members, closed: Members | null): Members {
  const known: Members = { ...created, ...closed };
  for (const name of ofLeaf) delete known[name];
  if (!closed) return known;
  Object.assign(known, { status: "closed", confidence: known["initial_confidence"] });
  const { entry_price: entry, stop_loss: stop, exit_price: exit } = known;
  if (typeof entry === "number" && typeof stop === "number" && typeof exit === "number") {
    const won = known["direction"] === "short" ? entry - exit : exit - entry;
    Object.assign(known, { r: won / Math.abs(entry - stop), pnl_absolute: won, pnl_percent: (won / entry) * 100 });
  } else {
    for (const name of Object.keys(precision)) known[name] = null;
  }
  const duration = Date.parse(String(known["closed_at"])) - Date.parse(String(known["created_at"]));
  known["duration_minutes"] = Math.floor(Math.max(0, duration) / 60_000);
  return known;
}

/** Returns a JSON value in the form of RFC 8785. */
function canonical(v: unknown): string {
  if (Array.isArray(v)) return `[${v.map(canonical).join(",")}]`;
  if (typeof v !== "object" || v === null) return JSON.stringify(v);
  const members = Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${canonical(value)}`).join(",")}}`;
}

/** Compares the metadata of a signal with its leaves: the members of which they have copies, and the hash of all. */
async function matchMetadata(created: Members, closed: Members | null, shown: unknown, h: Hasher): Promise<void> {
  const members = (shown ?? {}) as Members;
  const rest = { ...members };
  for (const leaf of [closed, created]) {
    for (const [name, value] of Object.entries((leaf?.["metadata"] ?? {}) as Members)) {
      if (canonical(members[name] ?? null) !== canonical(value)) throw new Differs(`metadata.${name}`, members[name], value);
      if (leaf === closed) delete rest[name];
    }
  }
  const sum = Array.from(await h.sum(utf8(canonical(rest))), (b) => b.toString(16).padStart(2, "0")).join("");
  if (sum !== created["metadata_sha256"]) throw new Differs("metadata", sum, created["metadata_sha256"]);
}

/** Checks that a signal is what its leaves have recorded, and returns the members that they do not cover. */
async function matches(created: Members, closed: Members | null, signal: Members, h: Hasher): Promise<string[]> {
  if (signal["signal_id"] !== created["signal_id"] || (closed && closed["signal_id"] !== created["signal_id"])) {
    throw new Differs("signal_id", signal["signal_id"], created["signal_id"]);
  }
  const known = derive(created, closed);
  const unproved: string[] = [];
  for (const [name, shown] of Object.entries(signal)) {
    const value = known[name];
    if (name === "metadata") {
      await matchMetadata(created, closed, shown, h);
    } else if (!(name in known)) {
      if (shown !== null && !(name === "confidence" && shown === known["initial_confidence"])) unproved.push(name);
    } else if (shown !== value) {
      const near = typeof shown === "number" && typeof value === "number" &&
        Math.abs(shown - value) <= Math.max(precision[name] ?? 0, Math.abs(value) * 1e-12);
      if (!near) throw new Differs(name, shown, value);
    }
  }
  return unproved.sort();
}

/**
 * Checks the proof of a signal by the keys of GET /v1/log/key. It proves that the leaves were in the
 * log at the time of the checkpoint, not that the keys are those of the service.
 */
export async function verify(proof: SignalProof, keys: string, signal: object, subtle: Subtle | null = globalThis.crypto?.subtle ?? null): Promise<Verdict> {
  if (!subtle) return { kind: "unavailable" };
  const h = new Hasher(subtle);
  try {
    const { root, key, signed } = await open(proof.checkpoint ?? "", keys, h);
    const checkpoint = await readHeads(root, proof.heads, h);
    const shown = signal as Record<string, unknown>;
    const created = await holds(checkpoint, proof.created, "created", h);
    const closed = proof.closed ? await holds(checkpoint, proof.closed, "closed", h) : null;
    const unproved = await matches(created, closed, shown, h);
    return { kind: "proved", signed, key, at: checkpoint.at, created: proof.created, closed: proof.closed, unproved };
  } catch (error) {
    if (error instanceof Differs) return { kind: "differs", member: error.member, shown: error.shown, recorded: error.recorded };
    if (error instanceof Broken) return { kind: "broken", part: error.part, why: error.message };
    throw error;
  }
}

/** Checks that the checkpoint has a leaf of an account, and returns what it counts; why: it has not. */
export async function openLeaf(note: string, heads: Entry, leaf: Leaf, keys: string, subtle: Subtle): Promise<{ account: unknown; created: unknown; closed: unknown } | { why: string }> {
  const h = new Hasher(subtle);
  try {
    const { root } = await open(note, keys, h);
    const said = (JSON.parse(leaf.text) as Members)["kind"];
    const kind = said === "closed" || said === "month" ? said : "created";
    const { account, created, closed } = await holds(await readHeads(root, heads, h), leaf, kind, h);
    return { account, created, closed };
  } catch (error) {
    if (error instanceof Broken) return { why: `${error.part}: ${error.message}` };
    throw error;
  }
}
