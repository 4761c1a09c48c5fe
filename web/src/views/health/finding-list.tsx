import type { ComponentChildren } from "preact";
import { Badge } from "../../components/badge.js";

export interface Finding {
  readonly key: string;
  readonly state: "ok" | "warn" | "bad";
  readonly text: ComponentChildren;
}

const TONES = { ok: "good", warn: "wait", bad: "bad" } as const;

/** What was checked, or needs attention, one per row. */
export function FindingList({
  label,
  findings,
}: {
  readonly label: string;
  readonly findings: readonly Finding[];
}) {
  return (
    <ul class="findings" aria-label={label}>
      {findings.map(({ key, state, text }) => (
        <li key={key}>
          <Badge tone={TONES[state]}>{state}</Badge>
          <div>{text}</div>
        </li>
      ))}
    </ul>
  );
}
