import { expect, test } from "vitest";
import type { SignalProof } from "./verify";
import { verify } from "./verify";
import made from "./verify.json";

interface Case {
  name: string;
  keys: string;
  proof: SignalProof;
  signal: object;
  want: string;
  part?: string;
  member?: string;
}

const cases = made as Case[];

test.each(cases)("$name", async ({ keys, proof, signal, want, part, member }) => {
  const { kind, ...more } = await verify(proof, keys, signal);
  expect({ kind, part: "part" in more ? more.part : undefined, member: "member" in more ? more.member : undefined }).toEqual({ kind: want, part, member });
});

const proved = cases.find((c) => c.want === "proved" && c.proof.closed)!;

test("a proved signal has the place of its leaves, the time and the key", async () => {
  const verdict = await verify(proved.proof, proved.keys, proved.signal);
  expect(verdict).toMatchObject({ kind: "proved", signed: true, key: "agentsignal-test", closed: { log: 1 } });
  expect(verdict.kind === "proved" && verdict.at).toMatch(/^2026-11-23T12:\d\d:00Z$/);
});

test("without Ed25519 the hashes are checked, and the signature is said not to be", async () => {
  const subtle = globalThis.crypto.subtle;
  const old = {
    digest: subtle.digest.bind(subtle),
    sign: subtle.sign.bind(subtle),
    verify: subtle.verify.bind(subtle),
    importKey: ((format: "raw", key: BufferSource, algorithm: AlgorithmIdentifier, ...more: [boolean, KeyUsage[]]) =>
      (algorithm as Algorithm).name === "Ed25519"
        ? Promise.reject(new DOMException("unknown algorithm", "NotSupportedError"))
        : subtle.importKey(format, key, algorithm, ...more)) as SubtleCrypto["importKey"],
  };
  expect(await verify(proved.proof, proved.keys, proved.signal, old)).toMatchObject({ kind: "proved", signed: false });
  const changed = cases.find((c) => c.part === "leaf")!;
  expect(await verify(changed.proof, changed.keys, changed.signal, old)).toMatchObject({ kind: "broken", part: "leaf" });
});

test("where the browser has no WebCrypto nothing is claimed", async () => {
  expect(await verify(proved.proof, proved.keys, proved.signal, null)).toEqual({ kind: "unavailable" });
});
