// Reads the JSON Schema of a run's body: enough of it to draw a form, and nothing else.

export interface Schema {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  title?: string;
  description?: string;
  default?: unknown;
  examples?: unknown[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  pattern?: string;
}

export type Kind = "choice" | "text" | "number" | "switch" | "list" | "group" | "unknown";

/** One field of a form. */
export interface FieldOf {
  path: string; // names joined by dots
  label: string;
  kind: Kind;
  required: boolean;
  hint: string;
  choices: string[];
  initial: string;
  schema: Schema;
}

const maxDepth = 3;

function kindOf(s: Schema): Kind {
  const types = (Array.isArray(s.type) ? s.type : [s.type]).filter((t) => t !== "null");
  if (s.enum) return "choice";
  switch (types[0]) {
    case "string":
      return "text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "switch";
    case "array":
      return "list";
    case "object":
      return "group";
  }
  return "unknown";
}

const capital = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);
const text = (value: unknown) => (value === null || value === undefined ? "" : Array.isArray(value) ? value.join("\n") : String(value));

const first = ["asset", "strategy", "timeframe", "risk_level"];

/** Returns the fields of a schema, those of inner objects included: what every agent asks for, then its own, then switches. */
export function fieldsOf(schema: Schema): FieldOf[] {
  const rank = (f: FieldOf) => (first.includes(f.path) ? first.indexOf(f.path) : f.kind === "switch" ? 99 : first.length);
  return collect(schema, "", 0).sort((a, b) => rank(a) - rank(b));
}

function collect(schema: Schema, prefix: string, depth: number): FieldOf[] {
  if (depth > maxDepth) return [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, s]) => {
    const path = prefix + name;
    const kind = kindOf(s);
    if (kind === "group") return collect(s, `${path}.`, depth + 1);
    if (kind === "unknown") return [];
    const choices = (s.enum ?? []).filter((v) => typeof v === "string" || typeof v === "number").map(String);
    const required = schema.required?.includes(name) ?? false;
    const initial = text(s.default) || (kind === "choice" && required ? (choices[0] ?? "") : "");
    return [{ path, label: s.title ?? capital(name.replaceAll("_", " ")), kind, required, hint: hintOf(s), choices, initial, schema: s }];
  });
}

/** Returns the body of a run from what was typed. Empty fields are left out, so that defaults hold. */
export function bodyOf(fields: FieldOf[], values: Record<string, string>): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const f of fields) {
    const raw = (values[f.path] ?? f.initial).trim();
    if (raw === "" || (f.kind === "switch" && raw !== "true")) continue;
    const value =
      f.kind === "number" ? Number(raw)
      : f.kind === "switch" ? true
      : f.kind === "list" ? raw.split(/[\n,]/).map((part) => part.trim()).filter(Boolean)
      : raw;
    let target = body;
    const names = f.path.split(".");
    for (const name of names.slice(0, -1)) target = (target[name] ??= {}) as Record<string, unknown>;
    target[names.at(-1)!] = value;
  }
  return body;
}

/** The description of a field without the advice for programs: the page has a list where they have a path. */
const hintOf = (s: Schema) => (s.description ?? "").replace(/: (GET|POST) \/v1\/[^.]*\./, ".");
