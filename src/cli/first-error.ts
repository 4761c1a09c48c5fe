/** What went wrong first. When closing up after it failed, too, the language wraps both in an error without words. */
export function firstError(error: unknown): unknown {
  return error instanceof Error && error.name === "SuppressedError" && "suppressed" in error
    ? firstError(error.suppressed)
    : error;
}
