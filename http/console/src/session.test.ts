import { afterEach, beforeEach, expect, test, vi } from "vitest";

const answer = (status: number, body: unknown) => Response.json(body, { status });
const tokens = (n: number) => ({ access_token: `access ${n}`, refresh_token: `refresh ${n}`, expires_in: 900 });
const expired = { status: 401, code: "invalid_credentials", title: "Unauthorized" };

/** Another tab of the same session. */
let other: BroadcastChannel;
/** The requests that wait for an answer. */
let pending: { path: string; answer(response: Response): void }[];
/** What the browser keeps for this tab. */
let kept: Map<string, string>;

const refreshKey = "agentsignal.refresh";
const Channel = BroadcastChannel;
let tests = 0;

beforeEach(() => {
  vi.resetModules();
  pending = [];
  kept = new Map([[refreshKey, "refresh 1"]]);
  const suffix = ` of test ${++tests}`; // the page of an earlier test still listens
  vi.stubGlobal(
    "BroadcastChannel",
    class extends Channel {
      constructor(name: string) {
        super(name + suffix);
      }
    },
  );
  other = new BroadcastChannel("agentsignal.session");
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("window", {
    setTimeout,
    sessionStorage: {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
      removeItem: (key: string) => kept.delete(key),
    },
  });
  vi.stubGlobal("fetch", (path: string) => new Promise((resolve) => pending.push({ path, answer: resolve })));
});

afterEach(() => {
  other.close();
  vi.unstubAllGlobals();
});

async function requested() {
  await vi.waitFor(() => expect(pending).toHaveLength(1));
  return pending.pop()!;
}

/** A session that has renewed its token once. */
async function restored() {
  const session = await import("./session");
  const restoring = session.restore();
  (await requested()).answer(answer(200, tokens(2)));
  await restoring;
  expect(session.state.value).toBe("in");
  return session;
}

const elsewhere = "You signed out in another tab.";

test("a tab that has renewed its token since signs out with the others", async () => {
  const session = await restored();
  other.postMessage({ type: "out", token: "refresh of another session" });
  other.postMessage({ type: "out", token: "refresh 1" });
  await vi.waitFor(() => expect(session.state.value).toBe("out"));
  expect(session.ended.value).toBe(elsewhere);
  expect(kept.has(refreshKey)).toBe(false);
});

test.each([
  ["refused", () => answer(401, expired)],
  ["made", () => answer(200, tokens(3))],
])("a renewal under way at a sign-out elsewhere changes nothing when it is %s", async (_, result) => {
  const session = await restored();
  const renewal = session.renewNow();
  const refresh = await requested();
  other.postMessage({ type: "out", token: "refresh 2" });
  await vi.waitFor(() => expect(session.state.value).toBe("out"));
  refresh.answer(result());
  expect(await renewal).toBeNull();
  expect(session.ended.value).toBe(elsewhere);
  expect(session.who.value).toBe("");
  expect(kept.has(refreshKey)).toBe(false);
});

test("a renewal that is refused ends the session", async () => {
  const session = await restored();
  const renewal = session.renewNow();
  (await requested()).answer(answer(401, expired));
  expect(await renewal).toBeNull();
  expect(session.ended.value).toContain("Your session has ended");
  expect(session.state.value).toBe("out");
});
