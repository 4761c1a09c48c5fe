import { lstat, readdir, rm, rmdir, unlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { BadInput, StateUnusable } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import { readOwnFile, writeOwnFile } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import type {
  AnchorExit,
  DirectoryScope,
  FirstStop,
  RunFiles,
  RunIdentities,
  SilentFile,
  SweptFile,
} from "./run-file-types.js";
import {
  parseAnchorFile,
  parseExit,
  parseLeaderFile,
  parseScope,
  parseSilentFile,
  parseStopFile,
  parseSweptFile,
} from "./parse-run-files.js";

/** An id is used as a file name, in a cgroup path and on a command line, so it must be safe in all of them. */
const SAFE_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;

export function isSafeId(text: string): boolean {
  return SAFE_ID.test(text);
}

/** Prefix of an empty file that names a task. */
const TASK_FILE_PREFIX = "task.";

/** Prefix of the directory of a warm anchor. No run id begins with it. */
const WARM_MARK = ".";

/** The run directories of one instance. */
export class RunDirectories {
  readonly path: string;

  constructor(instanceDir: string) {
    this.path = join(instanceDir, "runs");
  }

  pathOf(runId: string): string {
    if (!isSafeId(runId))
      throw new BadInput("runId", `${JSON.stringify(runId)} is not a run id; nothing was touched`);
    return join(this.path, runId);
  }

  async list(): Promise<readonly string[]> {
    return (await this.#names()).filter(isSafeId);
  }

  /** The run ids of anchors that have not read START, or ended before: until START a dot marks the directory. */
  async listWarm(): Promise<readonly string[]> {
    return (await this.#names())
      .filter((name) => name.startsWith(WARM_MARK))
      .map((name) => name.slice(WARM_MARK.length))
      .filter(isSafeId);
  }

  warmPathOf(runId: string): string {
    return join(this.path, WARM_MARK + basename(this.pathOf(runId)));
  }

  /** Removes the directory of a warm anchor. Does nothing if the directory has become that of a run. */
  async removeWarm(runId: string): Promise<void> {
    await removeFlatDirectory(this.warmPathOf(runId));
  }

  async #names(): Promise<readonly string[]> {
    try {
      const entries = await readdir(this.path, { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    } catch (error) {
      if (errnoCode(error) === "ENOENT") return [];
      throw error;
    }
  }

  /** Null if no anchor has written it yet, or the directory is gone. */
  async readKey(runId: string): Promise<string | null> {
    return readIfExists(join(this.pathOf(runId), "key"), (text) => text.trim());
  }

  async readExit(runId: string): Promise<AnchorExit | null> {
    return (await this.readRunFiles(runId)).exit;
  }

  /** Null if an older anchor wrote the directory, or no anchor has written it yet. */
  async readScope(runId: string): Promise<DirectoryScope | null> {
    const directory = this.pathOf(runId);
    const parsed = await readIfExists(join(directory, "anchor.json"), parseScope);
    if (parsed === null) return null;
    const { taskId, ...rest } = parsed;
    const names = await readdir(directory).catch(() => []);
    const given = names
      .filter((name) => name.startsWith(TASK_FILE_PREFIX))
      .map((name) => name.slice(TASK_FILE_PREFIX.length));
    return { ...rest, taskIds: [...(taskId === null ? [] : [taskId]), ...given] };
  }

  /**
   * Records a task that was assigned to the run after its start, so that the run can be found by task without the
   * store.
   */
  async addTask(runId: string, taskId: string): Promise<void> {
    if (!isSafeId(taskId)) throw new BadInput("taskId", `${JSON.stringify(taskId)} is not a task id`);
    writeOwnFile(join(this.pathOf(runId), `${TASK_FILE_PREFIX}${taskId}`), "");
  }

  async readRunFiles(runId: string): Promise<RunFiles> {
    const directory = this.pathOf(runId);
    // Most directories lack most of these files: one listing replaces four failing reads.
    const names = await readdir(directory).catch(() => null);
    if (names === null && (await isRealDirectory(this.warmPathOf(runId)))) {
      const swept = await readIfExists(join(this.warmPathOf(runId), "swept.json"), parseSweptFile);
      return { exit: null, leader: null, firstStop: null, swept, neverStarted: true };
    }
    const fileNames = new Set(names);
    const read = <T>(name: string, parse: (text: string) => T | null): Promise<T | null> | null =>
      fileNames.has(name) ? readIfExists(join(directory, name), parse) : null;
    const [exit, leader, firstStop, swept] = await Promise.all([
      read("exit.json", parseExit),
      read("leader.json", parseLeaderFile),
      read("stop.json", parseStopFile),
      read("swept.json", parseSweptFile),
    ]);
    if (exit === null) return { exit, leader, firstStop, swept };
    return {
      exit: { ...exit, lastOutputAt: await lastOutputTime(directory, fileNames) },
      leader,
      firstStop,
      swept,
    };
  }

  /** Null if no anchor has written them. Rejects if the file is damaged. */
  async readIdentities(runId: string): Promise<RunIdentities | null> {
    const path = join(this.pathOf(runId), "anchor.json");
    return readIfExists(path, (text) => {
      const found = parseAnchorFile(text);
      if (found !== null) return found;
      throw new StateUnusable(path, `${path} is damaged; the processes of run ${runId} are not known`);
    });
  }

  async takeSilentFile(runId: string): Promise<SilentFile | null> {
    const path = join(this.pathOf(runId), "silent.json");
    const noted = await readIfExists(path, parseSilentFile);
    if (noted !== null) await unlink(path).catch(() => undefined);
    return noted;
  }

  async writeStopFile(runId: string, asked: FirstStop): Promise<FirstStop> {
    const path = join(this.pathOf(runId), "stop.json");
    const { reason, actor, requestId } = (await readIfExists(path, parseStopFile)) ?? asked;
    await replaceFile(path, { reason, actor, requestId, withoutAnchor: true });
    return { reason, actor, requestId };
  }

  async writeSweptFile(
    runId: string,
    { anchorSignal, killed, killMode, emptiness }: SweptFile,
  ): Promise<void> {
    const swept = { runId, anchorSignal, anchorCode: 0, killed, killMode, emptiness };
    await replaceFile(join(this.pathOf(runId), "swept.json"), swept);
  }

  async size(runId: string): Promise<number> {
    const directory = this.pathOf(runId);
    const names = await readdir(directory).catch(() => []);
    const sizes = await Promise.all(
      names.map((name) =>
        lstat(join(directory, name)).then(
          ({ size }) => size,
          () => 0,
        ),
      ),
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  async remove(runId: string): Promise<void> {
    await removeFlatDirectory(this.pathOf(runId));
  }
}

/** Run directories are flat: this is several times faster than the recursive removal, which follows if needed. */
async function removeFlatDirectory(directory: string): Promise<void> {
  const names = (await isRealDirectory(directory)) ? await readdir(directory).catch(() => []) : [];
  await Promise.allSettled(names.map((name) => unlink(join(directory, name))));
  await rmdir(directory).catch(() => rm(directory, { recursive: true, force: true }));
}

/** Writes the file atomically, like the anchor does. */
async function replaceFile(path: string, content: object): Promise<void> {
  const unfinished = `${path}.${process.pid}.new`;
  try {
    writeOwnFile(unfinished, `${JSON.stringify(content)}\n`);
    await renameFile(unfinished, path);
  } catch (error) {
    await unlink(unfinished).catch(() => undefined);
    throw error;
  }
}

/** False for a symbolic link: its target does not belong to Holdfast. */
async function isRealDirectory(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/** Returns the time of the last output in a run's directory, or null if there is none. */
async function lastOutputTime(directory: string, names: ReadonlySet<string>): Promise<number | null> {
  const segments = [...names].filter((name) => /^std(?:out|err)\.\d+$/.test(name));
  const times = await Promise.all(
    segments.map((name) =>
      lstat(join(directory, name)).then(
        ({ size, mtimeMs }) => (size === 0 ? [] : [Math.floor(mtimeMs)]),
        () => [],
      ),
    ),
  );
  const last = Math.max(...times.flat());
  return Number.isFinite(last) ? last : null;
}

async function readIfExists<T>(path: string, parse: (text: string) => T | null): Promise<T | null> {
  try {
    return parse(await readOwnFile(path));
  } catch (error) {
    const code = errnoCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}
