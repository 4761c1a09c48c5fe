/** `ENOENT` and the like; null when it is no error of the system. */
export function errnoCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === "string" ? code : null;
}
