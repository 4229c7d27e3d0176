import { useState } from "preact/hooks";
import { get, request } from "../api/client";
import type { Publication } from "../api/types";
import { Act, Copy, Dialog, Fault, Field, Panel, say, Show, useLoad, useSubmit } from "../ui/kit";

const path = "/v1/account/public";

interface Wanted {
  slug: string;
  title: string;
  enabled: boolean;
  show_open: boolean;
}

export default function PublicPage() {
  const shown = useLoad("public", (abort) => get<Publication>(path, {}, abort));
  return (
    <>
      <div class="head"><h1>Public record</h1></div>
      <Show of={shown}>
        {(p) => (
          <div class="cols even">
            <How key={JSON.stringify(p)} of={p} onChanged={shown.reload} />
            <div class="stack">
              <Preview of={p} />
              <What />
            </div>
          </div>
        )}
      </Show>
    </>
  );
}

/** What cannot be taken back is asked for again: showing the record at all, and giving up a name. */
function How({ of, onChanged }: { of: Publication; onChanged: () => Promise<void> }) {
  const [asked, ask] = useState<Wanted | null>(null);
  const save = async (wanted: Wanted) => {
    await request<Publication>("PUT", path, { body: wanted });
    ask(null);
    say(wanted.enabled ? "Everyone can read the record." : of.enabled ? "The record is no longer shown." : "Saved. The record is not shown.");
    await onChanged();
  };
  const { submit, busy, error } = useSubmit(async (form) => {
    const values = new FormData(form);
    const wanted = {
      slug: String(values.get("slug")),
      title: String(values.get("title")),
      enabled: values.has("enabled"),
      show_open: values.has("show_open"),
    };
    if ((wanted.enabled && !of.enabled) || (of.slug !== null && wanted.slug !== of.slug)) ask(wanted);
    else await save(wanted);
  });
  return (
    <Panel title="How it is shown">
      <form class="body stack" onSubmit={submit}>
        <label class="check"><input type="checkbox" name="enabled" defaultChecked={of.enabled} /> Everyone can read the record</label>
        <Field id="p-slug" label="Name in the address" hint="3 to 40 lower-case letters, digits and hyphens, a letter first">
          <input id="p-slug" name="slug" required defaultValue={of.slug ?? ""} pattern="[a-z][a-z0-9\-]{2,39}" placeholder="my-signals" autoComplete="off" aria-describedby="p-slug-hint" />
        </Field>
        <Field id="p-title" label="Title"><input id="p-title" name="title" required defaultValue={of.title ?? ""} maxLength={80} placeholder="My signals" /></Field>
        <label class="check"><input type="checkbox" name="show_open" defaultChecked={of.show_open} /> Open signals at once, and not when they close</label>
        <p class="soft">{of.notice}</p>
        <Fault error={error} />
        <div class="row"><button class="primary" disabled={busy}>Save</button></div>
      </form>
      {asked && (
        <Dialog title={asked.enabled && !of.enabled ? "Show the record to everyone?" : "Give up the name?"} onClose={() => ask(null)}>
          {asked.enabled && !of.enabled && <p>{of.notice}</p>}
          {of.slug !== null && asked.slug !== of.slug && (
            <p>
              <code>/r/{of.slug}</code> stops working for ever, also where others have linked to it. An account has ten names in its life.
            </p>
          )}
          <div class="row">
            <Act run={() => save(asked)} class="danger">Confirm</Act>
            <button type="button" onClick={() => ask(null)}>Cancel</button>
          </div>
        </Dialog>
      )}
    </Panel>
  );
}

function Preview({ of }: { of: Publication }) {
  if (!of.enabled || !of.slug || !of.url) {
    return <Panel title="Preview"><p class="body muted">The record is not shown to anyone.</p></Panel>;
  }
  const here = `/r/${of.slug}`;
  const alt = "Record of signals";
  return (
    <Panel title="Preview" aside={<a class="button" href={here} target="_blank" rel="noopener">Open the page</a>}>
      <div class="body stack">
        <p><img src={`${here}/badge.svg`} alt="Badge of the record" style={{ maxWidth: "100%" }} /></p>
        <Code what="Address" value={of.url} />
        <Code what="Badge in HTML" value={`<a href="${of.url}"><img src="${of.url}/badge.svg" alt="${alt}"></a>`} />
        <Code what="Badge in Markdown" value={`[![${alt}](${of.url}/badge.svg)](${of.url})`} />
        <p class="soft">
          Also as <a href={`${here}.json`}>JSON</a> and as a <a href={`${here}/feed.xml`}>feed</a>. A change is seen within a minute, switching it off
          within a second.
        </p>
      </div>
    </Panel>
  );
}

function Code({ what, value }: { what: string; value: string }) {
  return (
    <div>
      <div class="row apart"><span class="label">{what}</span><Copy value={value} what={what} /></div>
      <code class="break">{value}</code>
    </div>
  );
}

function What() {
  return (
    <Panel title="What is shown">
      <ul class="body">
        <li>All signals of the account are counted, for all time, also those of agents that were removed. Nothing can be left out.</li>
        <li>Results before and after costs, in total and by agent, hit rates with their break-even, the curve, and how well confidence predicted.</li>
        <li>The newest 50 closed signals with their levels, their reasoning and their proofs.</li>
        <li>Not shown: the email, API keys, webhooks, and parameters of runs.</li>
      </ul>
    </Panel>
  );
}
