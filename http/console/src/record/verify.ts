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

/** The answer to GET /v1/signals/{id}/proof. */
export interface SignalProof {
  checkpoint?: string;
  created: Leaf;
  closed: Leaf | null;
}

export type Verdict =
  /** signed is false where the browser has no Ed25519: then only the hashes were checked. */
  | { kind: "proved"; signed: boolean; key: string; at: string; created: Leaf; closed: Leaf | null }
  | { kind: "differs"; member: string; shown: unknown; recorded: unknown }
  | { kind: "broken"; part: "checkpoint" | "signature" | "leaf"; why: string }
  /** The browser offers no hashes: the page came over plain HTTP. */
  | { kind: "unavailable" };

interface Log {
  size: number;
  root: string;
}

interface Checkpoint {
  origin: string;
  at: string;
  logs: Log[];
}

const maxLogs = 1024;
const maxNote = 128 << 10; // bytes
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

  async rootOfLeaves(leaves: Bytes[]): Promise<Bytes> {
    if (leaves.length === 1) return leaves[0]!;
    const k = split(leaves.length);
    return this.node(await this.rootOfLeaves(leaves.slice(0, k)), await this.rootOfLeaves(leaves.slice(k)));
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

const line = (l: Log, i: number) => `log ${i} ${l.size} ${l.root}\n`;

/** Reads the text of a checkpoint. It accepts nothing that a service would not write. */
async function parse(text: string, h: Hasher): Promise<Checkpoint> {
  const lines = text.split("\n");
  const c: Checkpoint = { origin: lines[0]!, at: lines[3]?.replace(/^time /, "") ?? "", logs: [] };
  for (const l of lines.slice(4, -1)) {
    const [, , size, root] = l.split(" ");
    c.logs.push({ size: Number(size), root: root ?? "" });
  }
  const sound = (l: Log) => l.size >= 0 && l.size <= maxSize && encode(decode(l.root)) === l.root && decode(l.root).length === 32;
  if (c.logs.length === 0 || c.logs.length > maxLogs || !c.logs.every(sound) || Number.isNaN(Date.parse(c.at))) {
    throw new Broken("checkpoint", "it is not a checkpoint");
  }
  const leaves = await Promise.all(c.logs.map((l, i) => h.record(utf8(line(l, i)))));
  const total = c.logs.reduce((n, l) => n + l.size, 0);
  const at = new Date(c.at).toISOString().replace(".000Z", "Z");
  if (`${c.origin}\n${total}\n${encode(await h.rootOfLeaves(leaves))}\ntime ${at}\n${c.logs.map(line).join("")}` !== text) {
    throw new Broken("checkpoint", "its lines do not belong together");
  }
  return c;
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
async function open(note: string, keys: string, h: Hasher): Promise<{ checkpoint: Checkpoint; key: string; signed: boolean }> {
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
  return { checkpoint: await parse(text, h), ...by };
}

/** Checks that a log of the checkpoint has a leaf, and that a signal is what the leaf says of it. */
async function check(c: Checkpoint, leaf: Leaf, kind: "created" | "closed", signal: Record<string, unknown>, h: Hasher): Promise<void> {
  const log = c.logs[leaf.log];
  if (!log || leaf.size !== log.size || leaf.index < 0 || leaf.index >= log.size) {
    throw new Broken("leaf", "its proof is for another checkpoint");
  }
  const proof = leaf.proof.map(decode);
  const root = await h.rootByProof(log.size, leaf.index, await h.leaf(leaf.salt, leaf.text), proof);
  if (proof.some((p) => p.length !== 32) || !root || encode(root) !== log.root) {
    throw new Broken("leaf", "its text, salt, place or proof was changed");
  }
  const recorded = JSON.parse(leaf.text) as Record<string, unknown>;
  if (recorded["kind"] !== kind) throw new Broken("leaf", `it does not say that the signal was ${kind}`);
  for (const [member, value] of [["signal_id", recorded["signal_id"]] as const, ...Object.entries(recorded)]) {
    if (member !== "signal_id" && !(member in signal)) continue;
    const shown = signal[member];
    // Results in R are shown with four decimals.
    const rounded = member.endsWith("_r") && typeof value === "number" && typeof shown === "number" && Math.abs(value - shown) <= 5e-5;
    if (shown !== value && !rounded) throw new Differs(member, shown, value);
  }
}

/**
 * Checks the proof of a signal by the keys of GET /v1/log/key. It proves that the leaves were in the
 * log at the time of the checkpoint, not that the keys are those of the service.
 */
export async function verify(proof: SignalProof, keys: string, signal: object, subtle: Subtle | null = globalThis.crypto?.subtle ?? null): Promise<Verdict> {
  if (!subtle) return { kind: "unavailable" };
  const h = new Hasher(subtle);
  try {
    const { checkpoint, key, signed } = await open(proof.checkpoint ?? "", keys, h);
    const shown = signal as Record<string, unknown>;
    await check(checkpoint, proof.created, "created", shown, h);
    if (proof.closed) await check(checkpoint, proof.closed, "closed", shown, h);
    return { kind: "proved", signed, key, at: checkpoint.at, created: proof.created, closed: proof.closed };
  } catch (error) {
    if (error instanceof Differs) return { kind: "differs", member: error.member, shown: error.shown, recorded: error.recorded };
    if (error instanceof Broken) return { kind: "broken", part: error.part, why: error.message };
    throw error;
  }
}
