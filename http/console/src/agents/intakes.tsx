import { useState } from "preact/hooks";
import { ApiError, explain, get, post, remove } from "../api/client";
import type { AgentDetails, Intake, IntakeRequest, NewIntake, Problem } from "../api/types";
import * as format from "../format";
import { linkTo } from "../router";
import { Act, Ago, Copy, Dialog, Empty, Field, Panel, Secret, Select, Show, Time, useLoad } from "../ui/kit";
import alert from "./alert.json";

/** Returns the message to paste into an alert of a strategy in TradingView, as actors/chartalert has it. */
export const messageOf = (strategy: string) => JSON.stringify({ ...alert, strategy }, null, 2);

const every = 5000;

/** The addresses to which chart programs send alerts. */
export function Intakes({ of }: { of: AgentDetails }) {
  const path = `/v1/agents/${encodeURIComponent(of.id)}/intakes`;
  const list = useLoad(path, (abort) => get<{ intakes: Intake[] }>(path, {}, abort), every);
  const [made, setMade] = useState<NewIntake | null>(null);
  const [ending, setEnding] = useState<Intake | null>(null);
  const [open, setOpen] = useState("");
  const make = async () => {
    setMade(await post<NewIntake>(path));
    await list.reload();
  };
  const end = async (of: Intake) => {
    await remove(`${path}/${of.intake_id}`);
    setEnding(null);
    await list.reload();
  };
  return (
    <Panel title="Chart alerts" aside={<Act run={make}>New address</Act>}>
      <Show of={list} lines={3}>
        {(data) => data.intakes.length === 0 ? (
          <Empty title="No address for alerts">
            <p>TradingView and similar programs send their alerts to an address, and each that is understood becomes a signal.</p>
          </Empty>
        ) : (
          <ul>
            {data.intakes.map((i) => (
              <li key={i.intake_id} class="body stack" style={{ borderBottom: "1px solid var(--line)" }}>
                <div class="row apart">
                  <span>Made <Time at={i.created_at} /></span>
                  <span class="row">
                    <button type="button" aria-expanded={open === i.intake_id} onClick={() => setOpen(open === i.intake_id ? "" : i.intake_id)}>Requests</button>
                    <button type="button" class="danger" onClick={() => setEnding(i)}>Revoke…</button>
                  </span>
                </div>
                {open === i.intake_id && <Requests path={`${path}/${i.intake_id}/requests`} />}
              </li>
            ))}
          </ul>
        )}
      </Show>
      {made && <Made of={made} strategies={of.strategies} onClose={() => setMade(null)} />}
      {ending && (
        <Dialog title="Revoke this address?" onClose={() => setEnding(null)}>
          <p>No alert is accepted there any more, and the list of its requests is gone.</p>
          <div class="row"><Act run={() => end(ending)} class="danger">Revoke</Act><button type="button" onClick={() => setEnding(null)}>Keep it</button></div>
        </Dialog>
      )}
    </Panel>
  );
}

/** What to enter in TradingView. */
function Made({ of, strategies, onClose }: { of: NewIntake; strategies: string[]; onClose: () => void }) {
  const [strategy, setStrategy] = useState(strategies[0]!);
  return (
    <Dialog title="Address for alerts" onClose={onClose}>
      <p>Enter it as the webhook URL of the alert. It is shown this once: whoever has it can make signals.</p>
      <Secret value={of.url} what="The address" />
      <Field id="i-strategy" label="Strategy"><Select id="i-strategy" value={strategy} options={strategies} onChange={setStrategy} /></Field>
      <p>Copy this into the alert's message. It is for an alert of a strategy.</p>
      <pre class="well" tabIndex={0} aria-label="Message">{messageOf(strategy)}</pre>
      <div class="row"><Copy value={messageOf(strategy)} what="The message" /><button type="button" class="primary" onClick={onClose}>I have saved both</button></div>
    </Dialog>
  );
}

/** The newest alerts, with what was understood, and why there was no signal. */
function Requests({ path }: { path: string }) {
  const list = useLoad(path, (abort) => get<{ requests: IntakeRequest[] }>(path, {}, abort), every);
  return (
    <Show of={list} lines={3}>
      {(data) => data.requests.length === 0 ? <p class="muted small">Nothing has come yet.</p> : (
        <ul class="stack">
          {data.requests.map((r, n) => (
            <li key={`${r.received_at} ${n}`}>
              <div class="row apart">
                <span class="break">{r.understood || <span class="muted">not understood</span>}</span>
                <span class="row">
                  <span class={`tag ${r.signal_id ? "up" : r.error ? "down" : ""}`}>{r.signal_id ? "signal" : r.error ? String(r.status) : format.words(r.reason) || String(r.status)}</span>
                  <span class="muted small"><Ago at={r.received_at} /></span>
                </span>
              </div>
              {r.error && <p class="down small break">{explain(new ApiError(r.error as unknown as Problem))}</p>}
              {r.signal_id && <a class="small" href={linkTo(`signals/${r.signal_id}`)}>Signal</a>}
              <details><summary class="small muted">What was sent</summary><pre class="well" tabIndex={0}>{r.body}</pre></details>
            </li>
          ))}
        </ul>
      )}
    </Show>
  );
}
