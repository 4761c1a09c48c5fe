/** The command that runs the suite. Null: it is not installed. */
export function conformanceCommand(): readonly string[] | null;
