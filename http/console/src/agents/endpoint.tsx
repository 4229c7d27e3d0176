import { useState } from "preact/hooks";
import { patch } from "../api/client";
import type { AgentDetails } from "../api/types";
import { now } from "../clock";
import * as format from "../format";
import { linkTo } from "../router";
import { Act, Ago, Dialog, Empty, Fault, Field, Panel, Secret, Time, useSubmit } from "../ui/kit";

type Asked = NonNullable<AgentDetails["endpoint"]>;

/** The secret of an endpoint that was set just now. */
export function SecretOf({ of, onClose }: { of: Asked; onClose: () => void }) {
  return (
    <Dialog title="The secret of the endpoint" onClose={onClose}>
      <p>It signs what the agent is asked, as deliveries to webhooks are signed. It is shown this once.</p>
      <Secret value={of.secret ?? ""} what="The secret" />
      <div class="row"><button type="button" class="primary" onClick={onClose}>I have saved it</button></div>
    </Dialog>
  );
}

/** Where an agent is asked, and how that goes. */
export function Endpoint({ of, path, onDone }: { of: AgentDetails; path: string; onDone: () => Promise<void> }) {
  const [setting, setSetting] = useState(false);
  const [made, setMade] = useState<Asked | null>(null);
  const end = async () => {
    await patch(path, { endpoint: null });
    await onDone();
  };
  const asked = of.endpoint;
  return (
    <Panel
      title="Endpoint"
      aside={asked && (
        <>
          <a class="button" href={linkTo("run", { agent: of.id })}>Run</a>
          <button type="button" onClick={() => setSetting(true)}>Change…</button>
          <Act run={end} class="danger" label="Remove the endpoint">Remove</Act>
        </>
      )}
    >
      {asked ? <Health of={asked} /> : (
        <Empty title="It is not asked">
          <p>With an endpoint, the service asks the agent for a signal: when it is run, in scans and by schedules.</p>
          <div class="row"><button type="button" onClick={() => setSetting(true)}>Set an endpoint</button></div>
        </Empty>
      )}
      {setting && <Change of={asked ?? null} path={path} onClose={() => setSetting(false)} onMade={(e) => (setSetting(false), setMade(e), void onDone())} />}
      {made && <SecretOf of={made} onClose={() => setMade(null)} />}
    </Panel>
  );
}

function Health({ of }: { of: Asked }) {
  const h = of.health;
  const paused = !!h?.paused_until && Date.parse(h.paused_until) > now.value;
  return (
    <dl class="pairs body">
      <dt>Address</dt><dd>{of.url}</dd>
      {h && (
        <>
          <dt>Health</dt>
          <dd>
            {paused ? <><span class="tag down">paused</span> <span class="muted small">until <Time at={h.paused_until} /></span></>
              : h.failures > 0 ? <span class="tag warn">failing</span>
              : <span class="tag up">no failure</span>}
          </dd>
          <dt>Failures in a row</dt><dd>{format.count(h.failures)}</dd>
          <dt>Asked now</dt><dd>{format.count(h.in_flight)}{h.waiting > 0 && `, ${format.count(h.waiting)} waiting`}</dd>
          {h.last_error && <><dt>Newest failure</dt><dd>{h.last_error.error_code}: {h.last_error.message} <span class="muted small"><Ago at={h.last_error.at} /></span></dd></>}
        </>
      )}
    </dl>
  );
}

function Change(props: { of: Asked | null; path: string; onClose: () => void; onMade: (made: Asked) => void }) {
  const { submit, busy, error } = useSubmit(async (filled) => {
    const form = new FormData(filled);
    const secret = String(form.get("secret"));
    const changed = await patch<AgentDetails>(props.path, { endpoint: { url: String(form.get("url")), ...(secret && { secret }) } });
    props.onMade(changed.endpoint!);
  });
  return (
    <Dialog title="Endpoint" onClose={props.onClose}>
      <form class="stack" onSubmit={submit}>
        <Field id="e-url" label="Address" hint="https://, reachable from the service">
          <input id="e-url" name="url" type="url" required maxLength={2048} placeholder="https://example.com/ask" defaultValue={props.of?.url ?? ""} aria-describedby="e-url-hint" />
        </Field>
        <Field id="e-secret" label="Secret (optional)" hint="whsec_…; without one, a new one is made">
          <input id="e-secret" name="secret" autoComplete="off" spellcheck={false} maxLength={256} aria-describedby="e-secret-hint" />
        </Field>
        <Fault error={error} />
        <div class="row"><button class="primary" disabled={busy}>Save</button><button type="button" onClick={props.onClose}>Cancel</button></div>
      </form>
    </Dialog>
  );
}
