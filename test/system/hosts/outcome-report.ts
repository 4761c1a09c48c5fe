import { expect } from "vitest";
import type { MultiHost } from "./multi-host.js";

interface TestOutcome {
  readonly name: string;
  readonly runs: number;
  /** Bystanders that did not survive. */
  readonly bystanders: number;
  /** Runs that have no end although all hosts are back and stopped them. */
  readonly stuck: number;
  /** Runs with a wrong end, or with more than one. */
  readonly wrong: number;
}

/** The expected end of each run; null: it is still running. */
type ExpectedEnds = Readonly<Record<string, { readonly reason: string; readonly code?: number } | null>>;

/** The outcome of each test. */
export class OutcomeReport {
  readonly #all: TestOutcome[] = [];

  /** Checks all runs, and stops those that are still running. */
  async add(name: string, multiHost: MultiHost, expected: ExpectedEnds): Promise<void> {
    const bystanders = multiHost.hosts.filter(({ bystanderAlive: unharmed }) => !unharmed).length;
    const wrong: string[] = [];
    for (const [runId, end] of Object.entries(expected))
      if (!(await hasExpectedEnd(multiHost, runId, end))) wrong.push(runId);
    const stuck: string[] = [];
    for (const [runId, end] of Object.entries(expected))
      if (end === null && !(await canBeStopped(multiHost, runId))) stuck.push(runId);
    const open = (await multiHost.records()).filter(({ state }) => state !== "exited");
    stuck.push(...open.map(({ runId }) => runId).filter((runId) => !stuck.includes(runId)));
    const runs = Object.keys(expected).length;
    this.#all.push({ name, runs, bystanders, stuck: stuck.length, wrong: wrong.length });
    expect({ bystanders, stuck, wrong }).toEqual({ bystanders: 0, stuck: [], wrong: [] });
  }

  toString(): string {
    const heads = ["runs", "bystanders", "stuck", "wrong"] as const;
    const width = Math.max(...this.#all.map(({ name }) => name.length), 0);
    const line = (name: string, cells: readonly (string | number)[]): string =>
      `  ${name.padEnd(width)}  ${cells.map((cell) => String(cell).padStart(9)).join("  ")}`;
    return [
      line("", heads),
      ...this.#all.map((one) =>
        line(
          one.name,
          heads.map((head) => one[head]),
        ),
      ),
    ].join("\n");
  }
}

async function hasExpectedEnd(
  multiHost: MultiHost,
  runId: string,
  end: ExpectedEnds[string] | undefined,
): Promise<boolean> {
  const { state, exit } = await multiHost.record(runId);
  const ends = (await multiHost.events(runId)).filter(({ type }) => type === "exit").length;
  if (end === null || end === undefined) return state === "running" && ends === 0;
  return ends === 1 && exit?.reason === end.reason && (end.code === undefined || exit.code === end.code);
}

async function canBeStopped(multiHost: MultiHost, runId: string): Promise<boolean> {
  const { kill } = await multiHost.hostOf(await multiHost.record(runId)).client();
  const { outcome } = await kill({ params: { runId }, body: { graceMs: 200 } });
  return outcome === "gone";
}
