import { stat } from "node:fs/promises";
import { delimiter, isAbsolute } from "node:path";
import type { ResponseOf } from "../api/contract.js";
import { SerialQueue } from "../async/concurrency.js";
import type { AgentEntry } from "../config/agents.js";
import { defaults } from "../defaults.js";
import { BadInput, TooManyRequests } from "../errors.js";
import { locateExecutable, locateOnPath } from "../sessions/resolve-executable.js";

export type AgentListing = ResponseOf<"listAgents">["agents"][number];

/** All known agents by id, and the ids of those in the configuration. */
export interface KnownAgents {
  readonly all: ReadonlyMap<string, AgentEntry>;
  readonly own: ReadonlySet<string>;
}

export async function describeAgents(
  { all, own }: KnownAgents,
  path: string | undefined = process.env["PATH"],
): Promise<ResponseOf<"listAgents">> {
  const entries = [...all.values()];
  return { agents: await Promise.all(entries.map((entry) => describeAgent(entry, own.has(entry.id), path))) };
}

/** Describes an agent with the paths of its programs, on this PATH or the one of its entry. Executes nothing. */
export async function describeAgent(
  entry: AgentEntry,
  own: boolean,
  path: string | undefined,
): Promise<AgentListing> {
  const { id, name = id, acp, cli, install = null, verified = null, env } = entry;
  const form = async ([program = "", ...rest]: readonly string[]) => {
    const located = await (program.includes("/")
      ? locateExecutable(program, { path: undefined, cwd: process.cwd() })
      : locateOnPath(program, env["PATH"] ?? path));
    return { argv: [program, ...rest], executable: located?.file ?? null };
  };
  return {
    id,
    name,
    from: own ? "config" : "built-in",
    acp: acp === undefined ? null : { ...(await form(acp.argv)), npm: acp.npm ?? null },
    cli:
      cli === undefined
        ? null
        : { ...(await form(cli.argv)), output: cli.output, resumes: cli.resumeArgv !== undefined },
    install,
    verified,
  };
}

type IsDirectory = (path: string) => Promise<boolean>;

const isDirectory: IsDirectory = (path) =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

/**
 * The directories of a PATH that a caller gave: absolute, existing, each once.
 *
 * A directory on a network file system whose server is unreachable may never answer, and a blocked system call cannot be
 * cancelled. So all callers together read one directory at a time: a blocked call occupies only one of the process's
 * few threads for file access, and each caller is answered within a fixed time.
 */
export class CallerSearchPath {
  readonly #isDirectory: IsDirectory;
  readonly #withinMs: number;
  readonly #queue = new SerialQueue();
  #waiting = 0;
  /** The directory that is being checked. */
  #checking = "";

  constructor(withinMs: number = defaults.agentPathMs, isDirectoryNow: IsDirectory = isDirectory) {
    this.#withinMs = withinMs;
    this.#isDirectory = isDirectoryNow;
  }

  async directories(path: string): Promise<readonly string[]> {
    const named = path.split(delimiter);
    if (named.length > defaults.agentPathDirectories)
      throw new BadInput(
        "path",
        `path has ${named.length} directories; at most ${defaults.agentPathDirectories} are allowed`,
      );
    if (this.#waiting >= defaults.agentPathWaiting) throw new TooManyRequests("agents being looked for");
    const late = AbortSignal.timeout(this.#withinMs);
    this.#waiting += 1;
    const absolute = new Set(named.filter((each) => isAbsolute(each)));
    const found = this.#queue
      .run(() => this.#findDirectories(absolute, late))
      .finally(() => (this.#waiting -= 1));
    const inTime = new Promise<null>((resolve) => late.addEventListener("abort", () => resolve(null)));
    const directories = await Promise.race([found, inTime]);
    if (directories !== null) return directories;
    throw new BadInput(
      "path",
      `the directory ${JSON.stringify(this.#checking)} did not answer within ${this.#withinMs / 1000} s; leave it out of path`,
    );
  }

  /** Null: the caller no longer waits. */
  async #findDirectories(named: ReadonlySet<string>, late: AbortSignal): Promise<readonly string[] | null> {
    const found: string[] = [];
    for (const directory of named) {
      if (late.aborted) return null;
      this.#checking = directory;
      if (await this.#isDirectory(directory)) found.push(directory);
    }
    return found;
  }
}
