import { signal } from "@preact/signals";
import { inBrowser } from "./storage";

const kept = inBrowser("theme");

export type Theme = "" | "dark" | "light"; // "": as the system wishes

export const theme = signal<Theme>(kept.read() === "dark" ? "dark" : kept.read() === "light" ? "light" : "");

/** Whether the page is dark, for charts that are drawn and not styled. */
export const dark = signal(true);

export function setTheme(t: Theme): void {
  theme.value = t;
  kept.write(t || null);
}

export function run(): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.style.colorScheme = theme.value || "light dark";
    dark.value = theme.value ? theme.value === "dark" : system.matches;
  };
  theme.subscribe(apply);
  system.addEventListener("change", apply);
}
