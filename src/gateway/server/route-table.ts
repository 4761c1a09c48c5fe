import type { IncomingMessage } from "node:http";
import { contract, type Verb } from "../../api/contract.js";
import type { Route } from "../../api/route.js";
import { NotFound } from "../../errors.js";
import { isAcpVerb } from "../peers/run-and-session-locators.js";

interface RouteEntry {
  readonly verb: Verb;
  readonly route: Route;
  /** The gateway that holds the agent's connection answers. */
  readonly byAgent: boolean;
  /** The gateway that owns the run answers. */
  readonly byOwner: boolean;
  readonly pattern: PathPattern;
}

interface MatchedRoute {
  readonly entry: RouteEntry;
  readonly params: Readonly<Record<string, string>>;
}

/** The part of a URL that routes use. */
export type RequestTarget = Pick<URL, "pathname" | "searchParams">;

/** Verbs that need only the store. All other verbs of a run need the gateway that owns it. */
const VERBS_ANSWERED_ANYWHERE: ReadonlySet<Verb> = new Set(["getRun", "kill", "remove"]);

/** A path of the contract (`/v1/runs/{runId}`), compiled once. */
export class PathPattern {
  readonly segments: number;
  /** The text of each segment; null for a parameter. */
  readonly #literals: readonly (string | null)[];
  readonly #names: readonly string[];

  constructor(path: string) {
    const parts = path.split("/");
    const nameOf = (part: string): string | null => /^\{(\w+)\}$/.exec(part)?.[1] ?? null;
    this.segments = parts.length;
    this.#literals = parts.map((part) => (nameOf(part) === null ? part : null));
    this.#names = parts.map((part) => nameOf(part) ?? "");
  }

  /** The decoded parameters of a path. Null: no match. */
  match(given: readonly string[]): Readonly<Record<string, string>> | null {
    if (given.length !== this.segments) return null;
    const literals = this.#literals;
    for (let at = 0; at < literals.length; at++)
      if (literals[at] !== null && literals[at] !== given[at]) return null;
    const params: Record<string, string> = {};
    for (const [at, name] of this.#names.entries()) {
      if (name === "") continue;
      try {
        params[name] = decodeURIComponent(given[at] ?? "");
      } catch {
        return null;
      }
    }
    return params;
  }

  matchPath(path: string): Readonly<Record<string, string>> | null {
    return this.match(path.split("/"));
  }
}

/** The entries that a path of so many segments may match, by method and number of segments, in the order of the contract. */
const table = new Map<string, RouteEntry[]>();
for (const verb of Object.keys(contract) as Verb[]) {
  const route: Route = contract[verb];
  const pattern = new PathPattern(route.path);
  const byOwner = route.path.includes("{runId}") && !VERBS_ANSWERED_ANYWHERE.has(verb);
  const key = `${route.method} ${pattern.segments}`;
  const entries = table.get(key) ?? [];
  entries.push({ verb, route, pattern, byOwner, byAgent: isAcpVerb(verb) });
  table.set(key, entries);
}

export function findRoute(method: string, path: string): MatchedRoute | null {
  const given = path.split("/");
  for (const entry of table.get(`${method} ${given.length}`) ?? []) {
    const params = entry.pattern.match(given);
    if (params !== null) return { entry, params };
  }
  return null;
}

/** Paths that a URL parser returns unchanged. */
const PLAIN_PATH = /^\/(?!\/)[\w/-]*$/;
const NO_SEARCH = new URLSearchParams();

/** Throws NotFound if the target is no path. */
export function requestTarget({ method = "", url = "/" }: IncomingMessage): RequestTarget {
  if (PLAIN_PATH.test(url)) return { pathname: url, searchParams: NO_SEARCH };
  // `//x` would name another host.
  if (url.startsWith("/") && !url.startsWith("//")) return new URL(url, "http://gateway");
  throw new NotFound(`${method} ${url}`);
}
