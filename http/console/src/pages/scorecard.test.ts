import { expect, test, vi } from "vitest";
import { make } from "../live/fixture";
import { closedSignals } from "./scorecard";

const pages: object[] = [];
vi.mock("../api/client", async (original) => ({ ...(await original<object>()), get: async () => pages.shift() }));

test("the curve has the signals that the scorecard counts, each once, though another ends meanwhile", async () => {
  const closed = (id: string, at: string) => make(id, { status: "closed", r: 1, closed_at: `2026-11-21T10:${at}:00.000Z` });
  const [a, b, c, later] = [closed("a", "05"), closed("b", "02"), closed("c", "01"), closed("later", "09")];
  pages.push({ signals: [a, b], has_more: true }, { signals: [b, later, c], has_more: false });
  const { list, all } = await closedSignals({}, 3, new AbortController().signal);
  expect([list.map((s) => s.signal_id), all]).toEqual([["c", "b", "a"], true]);
});
