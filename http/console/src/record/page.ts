// The script of the page of a public record: it checks the signals that the page shows. The page is complete without it.

import type { ShownRecord } from "./shown";
import { check } from "./shown";

const byId = (id: string) => document.getElementById(id);
const site = byId("site");
if (site) site.textContent = location.origin;

const numeric = (text: string) => (text === "" ? null : Number(text.replace("−", "-")));

/** Returns the member of a signal that its row shows in another way; empty: none. */
function differs(row: HTMLElement, signal: Record<string, unknown>): string {
  const cells = [...row.children].map((c) => c.textContent ?? "");
  const [, asset, direction, agent] = cells;
  if (asset !== signal["asset"]) return "asset";
  if (direction !== signal["direction"]) return "direction";
  if (agent !== signal["agent_id"]) return "agent_id";
  for (const [label, name] of [["entry", "entry_price"], ["stop", "stop_loss"], ["target", "take_profit"], ["exit", "exit_price"]] as const) {
    const cell = row.querySelector(`[data-l=${label}]`);
    if (cell && numeric(cell.textContent ?? "") !== signal[name]) return name;
  }
  const r = row.querySelector("[data-l=R]");
  const shown = r && numeric(r.textContent ?? "");
  if (typeof shown === "number" && !(Math.abs(shown - Number(signal["r"])) < 0.00501)) return "r";
  return "";
}

async function run(): Promise<string> {
  const answer = await fetch(`/r/${location.pathname.split("/")[2]}.json`);
  if (!answer.ok) return `The record could not be read: status ${answer.status}. Reload the page.`;
  const record = (await answer.json()) as ShownRecord;
  const found = await check(record);
  if (!found) return "This browser offers no hashes to a page that came over plain HTTP: use the steps below, or HTTPS.";
  const shown = [...record.closed_signals, ...record.open_signals];
  const broken = [...found.faults];
  let proved = 0;
  for (const { signal } of shown) {
    const id = signal.signal_id;
    const row = byId(id);
    let why = found.signals.get(id) ?? "";
    if (!why && row) {
      const member = differs(row, signal);
      if (member) why = `the page shows another ${member}`;
    }
    row?.classList.add(why ? "broken" : "proved");
    if (why) broken.push(`${id}: ${why}`);
    else proved++;
  }
  if (broken.length > 0) return `It does not verify. ${broken.slice(0, 10).join("; ")}.`;
  const late = [...document.querySelectorAll("tr[id]")].filter((row) => !found.signals.has(row.id)).length;
  const number = (n: number) => n.toLocaleString("en");
  return [
    proved === 0 ? "No signal is shown." : `All ${proved} signals shown are in the checkpoint of ${found.at}, with what this page shows of them.`,
    !found.key ? "" : found.signed ? `The key of ${found.key} above has signed it.` : "This browser cannot check its signature: use the steps below.",
    record.proof.newest ? `The newest leaf of the account counts ${number(record.totals.created)} signals created and ${number(record.totals.closed)} closed; among the closed ones shown, none is left out.` : "",
    late > 0 ? `${late} rows are of an older checkpoint: reload the page.` : "",
  ].filter(Boolean).join(" ");
}

const box = byId("verify");
const verdict = byId("verdict");
const button = box?.querySelector("button");
if (box && verdict && button) {
  box.hidden = false;
  button.addEventListener("click", () => {
    button.disabled = true;
    verdict.textContent = "Checking…";
    run()
      .catch((error: unknown) => `It could not be checked: ${String(error)}`)
      .then((text) => {
        verdict.textContent = text;
        button.disabled = false;
      });
  });
}
