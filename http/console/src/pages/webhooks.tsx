import { useRef, useState } from "preact/hooks";
import { ApiError, get, Keys, patch, post, postOnce, remove } from "../api/client";
import type { NewWebhook, Webhook } from "../api/types";
import { now } from "../clock";
import * as format from "../format";
import { agents, strategiesOf } from "../reference";
import { goTo, linkTo, place } from "../router";
import { Act, Ago, Dialog, Empty, Fault, Field, say, Secret, Show, Time, useLoad, useSubmit } from "../ui/kit";
import { Deliveries, type DeliveryRow } from "./deliveries";

const events = ["signal.created", "signal.updated", "signal.closed", "agent.started", "agent.completed", "agent.error", "webhook.test"];

export default function WebhooksPage() {
  const id = place.value.path[1] ?? "";
  return id ? <One id={id} key={id} /> : <All />;
}

/** Reports whether the receiver has asked for a wait that is not over. */
const isHeld = (w: Webhook) => !!w.held_until && Date.parse(w.held_until) > now.value;

/** Until when nothing is sent, and why. */
function Held({ of }: { of: Webhook }) {
  return isHeld(of) ? <div class="under muted small">Nothing is sent until <Time at={of.held_until} />, as its receiver asked.</div> : null;
}

/** The state of a webhook, in a word. */
function State({ of }: { of: Webhook }) {
  if (of.status === "disabled") return <span class="tag down">disabled{of.disabled_reason ? `: ${of.disabled_reason}` : ""}</span>;
  if (isHeld(of)) return <span class="tag warn">held</span>;
  if (of.failing_since) return <span class="tag warn">failing</span>;
  return <span class="tag up">healthy</span>;
}

function All() {
  const [making, setMaking] = useState(false);
  const list = useLoad("webhooks", (abort) => get<{ webhooks: Webhook[]; total: number }>("/v1/webhooks", { limit: 100 }, abort), 10_000);
  return (
    <>
      <div class="head">
        <h1>Webhooks</h1>
        <button type="button" class="primary spring" onClick={() => setMaking(true)}>New webhook</button>
      </div>
      <div class="stack">
        <div class="panel">
          <Show of={list}>
            {(data) => data.webhooks.length === 0 ? (
              <Empty title="No webhook yet">
                <p>A webhook sends events to an address of yours as they happen, signed, and tries again for hours where that fails.</p>
                <div class="row"><button type="button" class="primary" onClick={() => setMaking(true)}>New webhook</button></div>
              </Empty>
            ) : <Hooks list={data.webhooks} />}
          </Show>
        </div>
        {(list.data?.webhooks.length ?? 0) > 0 && <Failed addresses={new Map(list.data!.webhooks.map((w) => [w.webhook_id, w.url]))} />}
      </div>
      {making && <Make onClose={() => setMaking(false)} onMade={list.reload} />}
    </>
  );
}

function Hooks({ list }: { list: Webhook[] }) {
  const order = (w: Webhook) => (w.status === "disabled" ? 0 : w.failing_since ? 1 : 2);
  const sorted = [...list].sort((a, b) => order(a) - order(b));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Webhooks">
      <table class="stacks">
        <thead><tr><th>Address</th><th>State</th><th>Failing since</th><th>Events</th><th class="num">Created</th></tr></thead>
        <tbody>
          {sorted.map((w) => (
            <tr key={w.webhook_id}>
              <td class="text wide">
                <a class="strong" href={linkTo(`webhooks/${w.webhook_id}`)}>{w.url}</a>
                {w.description && <div class="muted small">{w.description}</div>}
              </td>
              <td data-label="State"><State of={w} /><Held of={w} /></td>
              <td data-label="Failing since">{w.failing_since ? <Ago at={w.failing_since} /> : <span class="muted">{format.none}</span>}</td>
              <td class="text muted small" data-label="Events">{w.events.join(", ")}</td>
              <td class="num" data-label="Created"><Time at={w.created_at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Failed deliveries of all webhooks. */
function Failed({ addresses }: { addresses: ReadonlyMap<string, string> }) {
  const load = (query: Record<string, string | number>, abort: AbortSignal) =>
    get<{ deliveries: DeliveryRow[]; total: number }>("/v1/deliveries", { ...query }, abort);
  return <Deliveries id="all" title="Deliveries of all webhooks" load={load} start="failed" addresses={addresses} />;
}

function One({ id }: { id: string }) {
  const path = `/v1/webhooks/${encodeURIComponent(id)}`;
  const hook = useLoad(id, (abort) => get<Webhook>(path, {}, abort), 10_000);
  const [secret, setSecret] = useState("");
  const [recovering, setRecovering] = useState(false);
  const [ending, setEnding] = useState(false);
  const [limiting, setLimiting] = useState(false);
  const [round, setRound] = useState(0);
  const load = (query: Record<string, string | number>, abort: AbortSignal) =>
    get<{ deliveries: DeliveryRow[]; total: number }>(`${path}/deliveries`, query, abort);
  const test = async () => {
    await postOnce(`${path}/test`);
    say("A test event is on its way.");
    setRound((n) => n + 1);
  };
  const toggle = async (w: Webhook) => {
    await patch(path, { status: w.status === "enabled" ? "disabled" : "enabled" });
    await hook.reload();
  };
  const rotate = async () => setSecret((await post<{ secret: string }>(`${path}/rotate-secret`, {})).secret);
  const end = async () => {
    await remove(path);
    goTo("webhooks");
  };
  if (hook.error instanceof ApiError && hook.error.status === 404) {
    return (
      <Empty title="There is no such webhook">
        <p>It was deleted, or belongs to another account.</p>
        <div class="row"><a class="button" href={linkTo("webhooks")}>To the webhooks</a></div>
      </Empty>
    );
  }
  return (
    <Show of={hook}>
      {(w) => (
        <>
          <div class="head">
            <div>
              <a class="small" href={linkTo("webhooks")}>← Webhooks</a>
              <h1 class="break">{w.url}</h1>
              <p class="muted small">{w.description ?? w.webhook_id}</p>
            </div>
            <div class="row spring">
              <Act run={test} class="primary">Send a test event</Act>
              <button type="button" onClick={() => setRecovering(true)}>Recover…</button>
              <button type="button" onClick={() => setLimiting(true)}>Limit…</button>
              <Act run={() => toggle(w)}>{w.status === "enabled" ? "Disable" : "Enable"}</Act>
              <Act run={rotate}>New secret</Act>
              <button type="button" class="danger" onClick={() => setEnding(true)}>Delete…</button>
            </div>
          </div>
          <div class="stack">
            <dl class="tiles">
              <div class="tile"><dt>State</dt><dd><State of={w} /><Held of={w} /></dd></div>
              <div class="tile"><dt>Failing since</dt><dd class="words">{w.failing_since ? <Ago at={w.failing_since} /> : "not failing"}</dd></div>
              <div class="tile"><dt>Events</dt><dd class="words">{w.events.join(", ")}</dd></div>
              <div class="tile"><dt>Signals</dt><dd class="words break">{filterText(w.filters)}</dd></div>
              <div class="tile"><dt>Rate</dt><dd class="words">{w.max_per_minute ? `${format.count(w.max_per_minute)} requests a minute` : "no limit"}</dd></div>
              <div class="tile"><dt>API version</dt><dd class="words">{w.api_version}</dd></div>
            </dl>
            <Deliveries id={`${id} ${round}`} title="Deliveries" load={load} start="" webhook={id} />
          </div>
          {secret && (
            <Dialog title="The new secret" onClose={() => setSecret("")}>
              <p>It is shown this once. The old one still signs beside it for 24 hours.</p>
              <Secret value={secret} what="The secret" />
              <div class="row"><button type="button" onClick={() => setSecret("")}>I have saved it</button></div>
            </Dialog>
          )}
          {recovering && <Recover path={path} onClose={() => setRecovering(false)} onDone={() => setRound((n) => n + 1)} />}
          {limiting && <Limit path={path} most={w.max_per_minute} onClose={() => setLimiting(false)} onDone={hook.reload} />}
          {ending && (
            <Dialog title="Delete this webhook?" onClose={() => setEnding(false)}>
              <p>What is pending is dropped, and its deliveries are no longer listed.</p>
              <div class="row">
                <Act run={end} class="danger">Delete</Act>
                <button type="button" onClick={() => setEnding(false)}>Keep it</button>
              </div>
            </Dialog>
          )}
        </>
      )}
    </Show>
  );
}

/** Changes how many requests a webhook gets in a minute. */
function Limit({ path, most, onClose, onDone }: { path: string; most: number | null; onClose: () => void; onDone: () => Promise<void> }) {
  const { submit, busy, error } = useSubmit(async (form) => {
    await patch(path, { max_per_minute: Number(new FormData(form).get("max_per_minute")) });
    await onDone();
    onClose();
  });
  return (
    <Dialog title="Limit its requests" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Rate value={most} hint="Evenly spread; empty means the limit of its format, or none" />
        <Fault error={error} />
        <div class="row">
          <button class="primary" disabled={busy}>Save</button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}

/** The field for a rate. */
function Rate({ value, hint }: { value: number | null; hint: string }) {
  return (
    <Field id="w-most" label="Requests a minute, at most" hint={hint}>
      <input id="w-most" name="max_per_minute" type="number" min="1" max="60000" step="1" defaultValue={value ?? ""} aria-describedby="w-most-hint" />
    </Field>
  );
}

/** Sends many deliveries again, after saying how many they are. */
function Recover({ path, onClose, onDone }: { path: string; onClose: () => void; onDone: () => void }) {
  const [since, setSince] = useState("");
  const [status, setStatus] = useState("failed");
  const [would, setWould] = useState<number | null>(null);
  const body = (dry: boolean) => ({ status, dry_run: dry, ...(since && { since: new Date(since).toISOString() }) });
  const count = async () => setWould((await post<{ retried: number }>(`${path}/deliveries/retry`, body(true))).retried);
  const run = async () => {
    const { retried } = await postOnce<{ retried: number }>(`${path}/deliveries/retry`, body(false));
    say(`${format.count(retried)} deliveries are sent again.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title="Send many again" onClose={onClose}>
      <p class="soft">First the number is counted; nothing is sent before you say so.</p>
      <Field id="r-since" label="Created since" hint="In your time zone; empty means all that are kept.">
        <input id="r-since" type="datetime-local" aria-describedby="r-since-hint" value={since} onInput={(e) => (setSince(e.currentTarget.value), setWould(null))} />
      </Field>
      <div class="segments" role="group" aria-label="Which">
        {["failed", "succeeded"].map((name) => (
          <button type="button" key={name} aria-pressed={status === name} onClick={() => (setStatus(name), setWould(null))}>{name}</button>
        ))}
      </div>
      {would !== null && <p role="status"><strong>{format.count(would)}</strong> {would === 1 ? "delivery" : "deliveries"} would be sent again.</p>}
      <div class="row">
        <Act run={count} class={would === null ? "primary" : ""}>Count</Act>
        {would !== null && would > 0 && <Act run={run} class="primary">Send {format.count(would)} again</Act>}
        <button type="button" onClick={onClose}>Cancel</button>
      </div>
    </Dialog>
  );
}

function Make({ onClose, onMade }: { onClose: () => void; onMade: () => Promise<void> }) {
  const [made, setMade] = useState<NewWebhook | null>(null);
  const [chosen, setChosen] = useState(["signal.created", "signal.closed"]);
  const keys = useRef(new Keys()).current;
  const { submit, busy, error } = useSubmit(async (filled) => {
    const form = new FormData(filled);
    const description = String(form.get("description"));
    const most = Number(form.get("max_per_minute"));
    const filters = filtersOf(form);
    const body = {
      url: String(form.get("url")),
      events: chosen,
      ...(description && { description }),
      ...(most > 0 && { max_per_minute: most }),
      ...(Object.keys(filters).length > 0 && { filters }),
    };
    setMade(await post<NewWebhook>("/v1/webhooks", body, keys.of(body)));
    await onMade();
  });
  if (made) {
    return (
      <Dialog title="Webhook created" onClose={onClose}>
        <p>Its secret verifies what it sends. It is shown this once.</p>
        <Secret value={made.secret} what="The secret" />
        <div class="row"><button type="button" class="primary" onClick={onClose}>I have saved it</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New webhook" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field id="w-url" label="Address" hint="https://, reachable from the service">
          <input id="w-url" name="url" type="url" required maxLength={2048} placeholder="https://example.com/hooks" aria-describedby="w-url-hint" />
        </Field>
        <Field id="w-description" label="Description">
          <input id="w-description" name="description" maxLength={200} />
        </Field>
        <Rate value={null} hint="Evenly spread; empty means no limit" />
        <fieldset class="well" style={{ margin: 0 }}>
          <legend class="label">Events</legend>
          {events.map((name) => (
            <label class="check" key={name}>
              <input type="checkbox" checked={chosen.includes(name)} onChange={(e) => setChosen(e.currentTarget.checked ? [...chosen, name] : chosen.filter((c) => c !== name))} />
              {name}
            </label>
          ))}
        </fieldset>
        <details>
          <summary>Only some signals</summary>
          <div class="form">
            <div class="wide">
              <Field id="w-assets" label="Assets" hint="With commas; empty means all">
                <input id="w-assets" name="assets" autoComplete="off" spellcheck={false} aria-describedby="w-assets-hint" />
              </Field>
            </div>
            <Choice id="w-agent" name="agents" label="Agent" options={agents.value.map((a) => [a.id, a.name] as const)} />
            <Choice id="w-strategy" name="strategies" label="Strategy" options={strategiesOf("").map((s) => [s, format.words(s)] as const)} />
            <Choice id="w-direction" name="directions" label="Direction" options={[["long", "▲ long"], ["short", "▼ short"]]} />
            <Choice id="w-least" name="min_confidence" label="Chance at least" options={[30, 40, 45, 50, 55, 60, 70, 80].map((n) => [`${n / 100}`, `${n} %`] as const)} />
          </div>
          <p class="muted small">They are compared with a signal as it was created: all of its events are sent, or none.</p>
        </details>
        <Fault error={error} />
        <div class="row">
          <button class="primary" disabled={busy || chosen.length === 0}>Create</button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}

/** A choice of a form that may be left open. */
function Choice({ id, name, label, options }: { id: string; name: string; label: string; options: readonly (readonly [string, string])[] }) {
  return (
    <Field id={id} label={label}>
      <select id={id} name={name}>
        <option value="">any</option>
        {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </Field>
  );
}

/** Returns the filters of the form, without those that were left open. */
export function filtersOf(form: FormData): Record<string, string[] | number> {
  const filters: Record<string, string[] | number> = {};
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const assets = text("assets").split(",").map((name) => name.trim()).filter(Boolean);
  if (assets.length > 0) filters["assets"] = assets;
  for (const name of ["agents", "strategies", "directions"]) if (text(name)) filters[name] = [text(name)];
  if (text("min_confidence")) filters["min_confidence"] = Number(text("min_confidence"));
  return filters;
}

/** Says in words which signals a webhook is for. */
export function filterText(filters: Webhook["filters"]): string {
  if (!filters) return "all";
  const parts = [filters.assets, filters.agents, filters.strategies?.map(format.words), filters.directions].flatMap((list) => (list?.length ? [list.join(", ")] : []));
  if (filters.min_confidence != null) parts.push(`chance at least ${format.percent(filters.min_confidence)}`);
  if (filters.min_expected_r_net != null) parts.push(`expected at least ${format.r(filters.min_expected_r_net)} net`);
  return parts.join(" · ") || "all";
}
