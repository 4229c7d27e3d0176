import { get } from "../api/client";
import type { SignalState } from "../api/types";
import * as format from "../format";
import { linkTo } from "../router";
import { Empty, Panel, Show, Time, useLoad } from "../ui/kit";
import { Checks } from "./checks";
import { excerpt, Prose } from "./prose";

export default function ContentPage() {
  const list = useLoad("content", (abort) => get<{ signals: SignalState[]; total: number }>("/v1/signals", { agent_id: "seo", view: "full", limit: 50 }, abort), 30_000);
  return (
    <>
      <div class="head"><h1>Content</h1><span class="muted">texts and the checks they pass; quality is not a probability</span></div>
      <Show of={list}>{(data) => data.signals.length === 0 ? (
        <div class="panel">
          <Empty title="No texts yet">
            <p>Name a subject; the agent writes about it and checks what it wrote.</p>
            <div class="row"><a class="button" href={linkTo("run", { agent: "seo" })}>Write a text</a></div>
          </Empty>
        </div>
      ) : <div class="texts">{data.signals.map((s) => <Text key={s.signal_id} s={s} />)}</div>}</Show>
    </>
  );
}

/** Returns a text without the lines between "---" at its top, which are for publishing programs. */
export function withoutHeader(text: string): string {
  return text.replace(/^---\n[\s\S]*?\n---\n+/, "");
}

function Text({ s }: { s: SignalState }) {
  const failed = s.metadata.failed ?? [];
  return (
    <Panel
      title={<a href={linkTo(`signals/${s.signal_id}`)}>{s.asset}</a>}
      aside={<span class="muted small">{format.words(s.strategy)} · <Time at={s.created_at} /></span>}
    >
      <div class="body text-card">
        <div class="stack">
          <Prose text={excerpt(withoutHeader(s.metadata.content ?? ""), 480)} />
          <div class="row"><a class="button" href={linkTo(`signals/${s.signal_id}`)}>Read it all</a></div>
        </div>
        <div class="stack">
          <p class="odds"><strong>{format.percent(s.confidence)}</strong> quality</p>
          <p class="muted small">{format.count(s.metadata.indicators.length - failed.length)} of {format.count(s.metadata.indicators.length)} checks pass</p>
          <Checks names={s.metadata.indicators} failed={failed} />
        </div>
      </div>
    </Panel>
  );
}
