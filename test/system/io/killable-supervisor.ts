import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { CommandInput, SpawnOptions } from "../../../src/supervisor/api.js";

/** See `children/killable-supervisor.mjs`. */
export interface SupervisorOrder {
  readonly home: string;
  readonly instanceId: string;
  readonly spawn?: readonly (readonly [CommandInput, SpawnOptions])[];
  readonly follow?: string;
  readonly feed?: string;
  readonly pauseMs?: number;
  readonly lastly?: "cancel" | "write";
}

interface KillableSupervisor {
  /** The runs that the supervisor reports to hold. */
  readonly runIds: Promise<readonly string[]>;
  /** The first piece of `feed` was accepted. */
  readonly fed: Promise<void>;
  readonly ended: Promise<void>;
  kill(): Promise<void>;
}

/** Starts a supervisor in its own process. */
export function startKillableSupervisor(task: SupervisorOrder): KillableSupervisor {
  const script = fileURLToPath(new URL("children/killable-supervisor.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, JSON.stringify(task)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (text: Buffer) => (errors += text.toString()));
  const ended = once(child, "close").then(
    () => undefined,
    (error: unknown) => void (errors += String(error)),
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error(`the supervising process ended before it held a run: ${errors}`);
    return value;
  };
  const runIds = nextLine().then((line) => JSON.parse(line) as string[]);
  const fed = nextLine().then(() => undefined);
  // A supervisor that is killed early reports no runs.
  for (const each of [runIds, fed]) each.catch(() => {});
  return {
    runIds,
    fed,
    ended,
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
      if (errors !== "") throw new Error(errors);
    },
  };
}
