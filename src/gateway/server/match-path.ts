/** The parts of `path` that `pattern` names (`/v1/runs/{runId}`), decoded; null: it is another path. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const found = given[at] ?? "";
    const [, name] = /^\{(\w+)\}$/.exec(part) ?? [];
    if (name === undefined) {
      if (part !== found) return null;
    } else {
      try {
        params[name] = decodeURIComponent(found);
      } catch {
        return null;
      }
    }
  }
  return params;
}
