/** Arguments and option values that are completed from the store or the config file, by their name in the help. */
export const COMPLETED_KINDS = ["run", "session", "task", "agent", "channel"] as const;
export type CompletedKind = (typeof COMPLETED_KINDS)[number];

/** The kind of an argument named `run`, `run|pid` or `session`; null: it is not completed. */
export function completedKind(name: string): CompletedKind | null {
  return COMPLETED_KINDS.find((kind) => name.split("|").includes(kind)) ?? null;
}
