import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const KEY = "holdfast.theme";
const stored = localStorage.getItem(KEY);

export const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "auto");

export function applyTheme(): void {
  theme.subscribe((chosen) => {
    document.documentElement.dataset["theme"] = chosen;
    if (chosen === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  });
}
