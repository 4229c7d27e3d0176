// Storage may be refused (a private window, a policy): the page then works without, for as long as it is open.

function attempt<T>(f: () => T, otherwise: T): T {
  try {
    return f();
  } catch {
    return otherwise;
  }
}

/** A value that survives a reload where the browser allows it. */
export interface Kept {
  read(): string | null;
  write(value: string | null): void;
}

function kept(area: () => Storage, key: string): Kept {
  let memory: string | null = null;
  return {
    read: () => attempt(() => area().getItem(key), null) ?? memory,
    write(value) {
      memory = value;
      attempt(() => (value === null ? area().removeItem(key) : area().setItem(key, value)), undefined);
    },
  };
}

export const inSession = (key: string) => kept(() => window.sessionStorage, `agentsignal.${key}`);
export const inBrowser = (key: string) => kept(() => window.localStorage, `agentsignal.${key}`);
