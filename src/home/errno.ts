/** The system's name for what went wrong (`ENOENT`), or null when it was not the system. */
export function errnoOf(error: unknown): string | null {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return null;
  return error.code;
}

/** `ENOENT` and the like; null when it is no error of the system. */
export function errnoCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === "string" ? code : null;
}
