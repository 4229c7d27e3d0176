import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, explain } from "../api/client";
import * as format from "../format";
import { now } from "../clock";
import * as session from "../session";

/** A time in the user's zone, with UTC on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span>{format.none}</span>;
  return (
    <time dateTime={at} title={format.utc(at)}>
      {format.time(at, now.value)}
    </time>
  );
}

/** How long ago a time was. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span>{format.none}</span>;
  return (
    <time dateTime={at} title={`${format.time(at)} · ${format.utc(at)}`}>
      {format.age(now.value - Date.parse(at))} ago
    </time>
  );
}

/** Long or short, by arrow, word and colour. */
export function Direction({ of }: { of: string }) {
  if (of !== "long" && of !== "short") return <span class="dir">{format.words(of)}</span>; // of another version
  const long = of === "long";
  return (
    <span class={`dir ${long ? "up" : "down"}`}>
      <span aria-hidden="true">{long ? "▲" : "▼"}</span>
      {of}
    </span>
  );
}

export const tone = (value: number | null | undefined) =>
  value === null || value === undefined || Math.abs(value) < 0.005 ? "" : value > 0 ? "up" : "down";

/** A result in R, by sign and colour. */
export function R({ of, digits = 2 }: { of: number | null | undefined; digits?: number }) {
  return <span class={tone(of)}>{format.r(of, digits)}</span>;
}

export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div class="wait" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <i key={i} />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** What went wrong, and a way to try again. */
export function Fault({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  const id = error instanceof ApiError ? error.requestId : "";
  return (
    <div class="fault" role="alert">
      <span>
        {typeof error === "string" ? error : explain(error)}
        {id && <span class="muted small"> · {id}</span>}
      </span>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Panel(props: { title: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel">
      <div class="title">
        <h2>{props.title}</h2>
        {props.aside && <div class="spring row">{props.aside}</div>}
      </div>
      {props.children}
    </section>
  );
}

interface FieldProps {
  label: string;
  hint?: string;
  wrong?: string | undefined;
  id: string;
  children: ComponentChildren;
}

/** A labelled control; its hint and its fault are read with it through aria-describedby={`${id}-hint`}. */
export function Field({ label, hint, wrong, id, children }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
      {(wrong || hint) && (
        <span class={wrong ? "wrong" : "hint"} id={`${id}-hint`}>
          {wrong || hint}
        </span>
      )}
    </div>
  );
}

interface SelectProps {
  id: string;
  name?: string;
  disabled?: boolean;
  "aria-describedby"?: string | undefined;
  value: string;
  options: readonly (string | readonly [string, string])[];
  onChange: (value: string) => void;
}

export function Select({ options, onChange, value, ...rest }: SelectProps) {
  return (
    <select {...rest} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((option) => {
        const [key, text] = typeof option === "string" ? [option, format.words(option)] : option;
        return (
          <option key={key} value={key} selected={key === value}>
            {text}
          </option>
        );
      })}
    </select>
  );
}

/** A native modal dialog that is open while it is rendered. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    // A modal dialog makes all else inert, also the page on which one signs in again.
    const stop = session.state.subscribe((state) => {
      if (state === "in") ref.current?.showModal();
      else ref.current?.close();
    });
    return () => {
      stop();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog ref={ref} aria-label={props.title} onClose={() => session.state.value === "in" && !ref.current?.open && props.onClose()}>
      <div class="title">{props.title}</div>
      <div class="body">{props.children}</div>
    </dialog>
  );
}

interface Toast {
  id: number;
  text: string;
}
const toasts = signal<Toast[]>([]);
let toastId = 0;
const toastFor = 6000;

/** Shows a sentence for a few seconds. */
export function say(text: string): void {
  const id = ++toastId;
  toasts.value = [...toasts.value.slice(-2), { id, text }];
  setTimeout(() => (toasts.value = toasts.value.filter((t) => t.id !== id)), toastFor);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((t) => (
        <div class="toast" key={t.id}>
          {t.text}
        </div>
      ))}
    </div>
  );
}

/** A button that runs something once at a time and shows what went wrong. */
export function Act(props: { run: () => Promise<unknown>; children: ComponentChildren; class?: string; label?: string }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await props.run();
    } catch (error) {
      say(explain(error));
    }
    setBusy(false);
  };
  return (
    <button type="button" class={props.class} disabled={busy} aria-busy={busy} aria-label={props.label} onClick={run}>
      {props.children}
    </button>
  );
}

/** Sends a form once at a time, and keeps what went wrong until the next try. */
export function useSubmit(send: (form: HTMLFormElement) => Promise<unknown>) {
  const [state, set] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const sending = useRef(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (sending.current) return;
    sending.current = true;
    set({ busy: true, error: null });
    try {
      await send(event.currentTarget as HTMLFormElement);
      set({ busy: false, error: null });
    } catch (error) {
      set({ busy: false, error });
    }
    sending.current = false;
  };
  return { ...state, submit };
}

/** A button that copies a text; what names the text, and label the button where there are several. */
export function Copy({ value, what, label, children }: { value: string; what: string; label?: string; children?: ComponentChildren }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(value);
      say(`${what} copied.`);
    } catch {
      say("The browser refused the clipboard: select the text and copy it.");
    }
  };
  return <button type="button" aria-label={label} onClick={copy}>{children ?? "Copy"}</button>;
}

/** A secret that is shown once, with a button that copies it. */
export function Secret({ value, what }: { value: string; what: string }) {
  if (session.state.value !== "in") return null; // whoever sits there now may be somebody else
  return (
    <div class="well secret">
      <code>{value}</code>
      <Copy value={value} what={what} />
    </div>
  );
}

/** Something that is loaded from the API. */
export interface Loaded<T> {
  data: T | null;
  error: unknown;
  reload: () => Promise<void>;
}

/** Loads something when its key changes, and again by reload. The old data stay until the new ones are there. */
export function useLoad<T>(key: string, load: (abort: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const [state, set] = useState<{ key: string; data: T | null; error: unknown }>({ key, data: null, error: null });
  const latest = useRef(0);
  const running = useRef(0);
  const reload = async (abort = new AbortController().signal) => {
    const mine = ++latest.current;
    running.current++;
    try {
      const data = await load(abort);
      if (mine === latest.current) set({ key, data, error: null });
    } catch (error) {
      if (mine === latest.current && !abort.aborted) set((s) => ({ key, data: s.key === key ? s.data : null, error }));
    } finally {
      running.current--;
    }
  };
  useEffect(() => {
    const control = new AbortController();
    const signedIn = () => session.state.value === "in";
    // What is open when a session ends is loaded again when its user is back.
    const stop = session.state.subscribe(() => signedIn() && void reload(control.signal));
    // A service that answers slowly, or with a wait, is not asked again meanwhile.
    const again = () => !document.hidden && signedIn() && running.current === 0 && void reload(control.signal);
    const timer = every > 0 ? setInterval(again, every) : 0;
    return () => {
      stop();
      control.abort();
      clearInterval(timer);
    };
  }, [key]);
  const current = state.key === key;
  return { data: current ? state.data : null, error: current ? state.error : null, reload: () => reload() };
}

/** Shows what is loaded, or that it is being loaded, or why it cannot be. */
export function Show<T>({ of, lines, children }: { of: Loaded<T>; lines?: number; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error ? <Fault error={of.error} retry={of.reload} /> : null}
      {of.data !== null ? children(of.data) : of.error ? null : <Loading lines={lines ?? 6} />}
    </>
  );
}
