import type { ComponentChildren } from "preact";

/** `live`: in progress. `wait`: it waits for a person. `quiet`: it ended as requested. */
export type Tone = "live" | "good" | "bad" | "wait" | "quiet";

/** A state in a word or two. The word says it, the colour only repeats it. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}
