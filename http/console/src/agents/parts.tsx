import { useState } from "preact/hooks";
import type { AgentDefaults, StrategyScore } from "../api/types";
import { share } from "../charts/odds";
import * as format from "../format";
import { Field, R, Select } from "../ui/kit";
import { levelOf, type Level, stopPattern, targetPattern, textOf } from "./level";
import type { Score } from "./score";

/** The cells with what closed signals did: null while it is not known, undefined where none has closed. */
export function Numbers({ of }: { of: Score | null | undefined }) {
  const none = <span class="muted">{format.none}</span>;
  return (
    <>
      <td class="num" data-label="Closed">{of === null ? none : format.count(of?.count ?? 0)}</td>
      <td class="num" data-label="In profit">{of ? share(of.wins, of.count) : none}</td>
      <td class="num" data-label="Breaks even at">{of ? format.percent(of.breakEven, 1) : none}</td>
      <td class="num" data-label="Net">{of ? <R of={of.net} digits={1} /> : none}</td>
    </>
  );
}

const minSkill = 20; // signals below which the service does not know it

const signed = (x: number | null) => (x === null ? format.none : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2));

/** The skill of strategies with its interval: how much more often they gain than their levels explain. */
export function Skill({ of, named }: { of: StrategyScore[]; named?: boolean }) {
  if (of.length === 0) return <span class="muted">{format.none}</span>;
  return (
    <>
      {of.map((m) => (
        <div key={m.strategy}>
          {named && <span class="muted small">{format.words(m.strategy)} </span>}
          {m.skill === null ? <span class="muted small">not known ({m.skill_sample} of {minSkill})</span> : (
            <>{signed(m.skill)} <span class="muted small">{signed(m.skill_interval.low)} to {signed(m.skill_interval.high)}</span></>
          )}
        </div>
      ))}
    </>
  );
}

export function State({ of }: { of: { status: string } }) {
  return <span class={`tag ${of.status === "active" ? "up" : "warn"}`}>{of.status}</span>;
}

const lifetimes: [string, string][] = [["", "by the bars"], ["3600", "in an hour"], ["14400", "in 4 hours"], ["86400", "in a day"], ["604800", "in a week"], ["2592000", "in 30 days"]];

/** The fields of what an agent leaves out of a submission. */
export function Defaults({ of }: { of: AgentDefaults }) {
  const [timeframe, setTimeframe] = useState<string>(of.timeframe ?? "");
  const [risk, setRisk] = useState<string>(of.risk_level ?? "");
  const [expires, setExpires] = useState(String(of.expires_in ?? ""));
  const known = lifetimes.some(([value]) => value === expires);
  return (
    <fieldset class="well" style={{ margin: 0 }}>
      <legend class="label">Defaults of its signals</legend>
      <div class="form">
        <Field id="a-stop" label="Stop" hint="65000, 1.5% or 2atr">
          <input id="a-stop" name="stop" autoComplete="off" pattern={stopPattern} title="A price, or a distance such as 1.5% or 2atr" defaultValue={textOf(of.stop as Level)} aria-describedby="a-stop-hint" />
        </Field>
        <Field id="a-target" label="Target" hint="65000, 3%, 2atr or 2R">
          <input id="a-target" name="target" autoComplete="off" pattern={targetPattern} title="A price, or a distance such as 3%, 2atr or 2R" defaultValue={textOf(of.target as Level)} aria-describedby="a-target-hint" />
        </Field>
        <Field id="a-timeframe" label="Bars"><Select id="a-timeframe" name="timeframe" value={timeframe} options={[["", "1h"], "1m", "5m", "1d"]} onChange={setTimeframe} /></Field>
        <Field id="a-risk" label="Risk"><Select id="a-risk" name="risk_level" value={risk} options={[["", "medium"], "low", "high"]} onChange={setRisk} /></Field>
        <Field id="a-expires" label="Expires">
          <Select id="a-expires" name="expires_in" value={expires} options={known ? lifetimes : [...lifetimes, [expires, `in ${format.duration(Number(expires) * 1000)}`]]} onChange={setExpires} />
        </Field>
      </div>
    </fieldset>
  );
}

/** Reads the fields of Defaults. */
export function defaultsOf(form: FormData): Record<string, unknown> {
  const text = (name: string) => String(form.get(name) ?? "");
  return {
    stop: levelOf(text("stop")),
    target: levelOf(text("target")),
    timeframe: text("timeframe") || undefined,
    risk_level: text("risk_level") || undefined,
    expires_in: Number(text("expires_in")) || undefined,
  };
}

/** Returns names that are separated by commas or spaces. */
export const namesOf = (value: FormDataEntryValue | null) => String(value ?? "").split(/[\s,]+/).filter(Boolean);
