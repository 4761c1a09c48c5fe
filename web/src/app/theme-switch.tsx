import { type Theme, theme } from "./theme.js";

const NEXT: Readonly<Record<Theme, Theme>> = { auto: "light", light: "dark", dark: "auto" };
const LABELS: Readonly<Record<Theme, string>> = { auto: "Auto colours", light: "Light", dark: "Dark" };

export function ThemeSwitch() {
  return (
    <button
      type="button"
      class="plain"
      aria-label={`Colours: ${LABELS[theme.value]}`}
      title="Colours: as the system, light or dark"
      onClick={() => (theme.value = NEXT[theme.value])}
    >
      {LABELS[theme.value]}
    </button>
  );
}
