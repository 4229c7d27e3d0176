import { get } from "../api/client";
import type { WeatherSignal } from "../api/types";
import * as format from "../format";
import { linkTo } from "../router";
import { Direction, Empty, Panel, Show, Time, useLoad } from "../ui/kit";

const regions: [WeatherSignal["region"], string][] = [["us", "United States"], ["eu", "Europe"], ["asia", "Asia"], ["global", "All regions"]];
const regionNames: Record<string, string> = { us: "US", eu: "Europe", asia: "Asia", global: "world" };
const regionName = (id: string) => regionNames[id] ?? id;
const severities = ["extreme", "high", "medium", "low"];
const tones: Record<string, string> = { extreme: "down", high: "warn", medium: "", low: "" };

/** A severity of another version comes last. */
function rank(s: WeatherSignal): number {
  const place = severities.indexOf(s.weather_event.severity);
  return place < 0 ? severities.length : place;
}

function Severity({ of }: { of: string }) {
  return <span class={`tag ${tones[of] ?? ""}`}>{of}</span>;
}

const dayOf = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", timeZone: "UTC" });

/** A date without a time, as traders write it. */
function day(date: string): string {
  const at = Date.parse(date);
  return Number.isNaN(at) ? date : dayOf.format(at);
}

export default function WeatherPage() {
  const list = useLoad("weather", (abort) => get<{ signals: WeatherSignal[]; total: number }>("/v1/signals/weather", { limit: 100 }, abort), 30_000);
  return (
    <>
      <div class="head"><h1>Weather</h1><span class="muted">forecasts that move commodities, the most severe first</span></div>
      <Show of={list}>{(data) => data.signals.length === 0 ? (
        <div class="panel">
          <Empty title="No weather signals yet">
            <p>The weather agent compares forecasts with 30 years of normals. Run it for a commodity.</p>
            <div class="row"><a class="button" href={linkTo("run", { agent: "weather" })}>Run the weather agent</a></div>
          </Empty>
        </div>
      ) : <Content list={data.signals} />}</Show>
    </>
  );
}

function Content({ list }: { list: WeatherSignal[] }) {
  const sorted = [...list].sort((a, b) => rank(a) - rank(b) || Date.parse(b.created_at) - Date.parse(a.created_at));
  return (
    <div class="stack">
      <div class="regions">
        {regions.map(([id, name]) => {
          const here = sorted.filter((s) => s.region === id);
          const worst = here[0];
          return (
            <div key={id}>
              <h2>{name}</h2>
              {worst ? (
                <>
                  <span class="row"><Severity of={worst.weather_event.severity} /> {format.words(worst.weather_event.type)}</span>
                  <span class="muted small">{worst.weather_event.location} · {format.words(worst.commodity)} · {format.count(here.length)} signal{here.length > 1 ? "s" : ""}</span>
                </>
              ) : <span class="muted small">nothing unusual</span>}
            </div>
          );
        })}
      </div>
      <Panel title="Signals" aside={<span class="muted small">{format.count(list.length)} newest</span>}>
        <div class="scroll" tabIndex={0} role="region" aria-label="Weather signals">
          <table class="stacks">
            <thead><tr><th>Severity</th><th>Event</th><th>Commodity</th><th>Side</th><th class="num">Chance</th><th class="num">Off normal</th><th>Expected</th><th class="num">For</th><th class="num">Created</th></tr></thead>
            <tbody>
              {sorted.map((s) => (
                <tr key={s.signal_id}>
                  <td class="tight" data-label="Severity"><Severity of={s.weather_event.severity} /></td>
                  <td class="tight" data-label="Event">{format.words(s.weather_event.type)}<div class="muted small">{s.weather_event.location}, {regionName(s.region)}</div></td>
                  <td class="tight" data-label="Commodity"><a class="strong" href={linkTo(`signals/${s.signal_id.slice(1)}`)}>{format.words(s.commodity)}</a></td>
                  <td class="tight" data-label="Side"><Direction of={s.direction} /></td>
                  <td class="num" data-label="Chance">{format.percent(s.confidence)}</td>
                  <td class="num" data-label="Off normal">{format.change(s.weather_event.temperature_deviation, 1).replace(" %", " °C")}</td>
                  <td class="text small soft wide" data-label="Expected">{s.expected_impact}</td>
                  <td class="num" data-label="For">{day(s.weather_event.forecast_date)}</td>
                  <td class="num" data-label="Created"><Time at={s.created_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
    </div>
  );
}
