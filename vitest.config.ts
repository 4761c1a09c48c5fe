import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";

/** Soak runs repeat the same tests many more times. */
const patience = process.env["HOLDFAST_SOAK"] === "1" ? 20 : 1;

/** Real agents, fetched from elsewhere, are a suite of their own: `npm run test:agents`. */
const agents = process.env["AGENT_SUITE"] !== undefined;

/** Tests that start no gateway and hardly any process. `npm run test:fast` runs them. */
const unit = [
  "acp/{permissions,session,turn,wire}",
  "agents",
  "anchor/{protocol,run-dir}",
  "async",
  "channels",
  "cli/{options,print}",
  "config",
  "contract",
  "home",
  "terminal",
  "output",
  "queries",
  "sessions",
  "simulation/parts",
  "store/{local-copy,runs,sqlite}",
  "supervisor",
  "tasks",
  "text",
  // Not those that kill writers or start database servers.
].map((folder) => `test/${folder}/**/!(processes|shared-database|postgres|*.postgres).test.ts`);

/**
 * Tests of macOS' boundary, after all others: processes that other tests leave to init are strangers that it cannot always
 * tell from its own, and its runs end unproven then.
 */
const lineages = [
  "test/system/tree/{lineage,macos-calls}.test.ts",
  "test/system/os-matrix/os-matrix.test.ts",
];

/** The longest files, which start first, so that no worker starts one of them when the others are done. */
const slowest = [
  "gateway/peers/remote-stops",
  "system/faults/store-outage",
  "cli/runs-of-other-hosts",
  "system/faults/silent-anchor",
  "system/spawn/kill-supervisor-at-each-step",
  "cli/same-processes-in-every-view",
  "system/anchor/sanitizers",
  "system/crash/crash-matrix",
  "system/io/reattach",
  "system/tree/nothing-is-left",
  "cli/gateway/start-stop-status",
  "cli/runs/moved-state-directory",
  "gateway/peers/tasks-through-peer",
  "cli/run/run",
  "cli/state/copied-state",
  "system/spawn/kill-anchor-at-each-step",
  "system/faults/gateway-store-outage",
  "system/faults/store-faults",
  "system/faults/silent-gateway",
  "cli/run/lost-client",
  "gateway/tasks/restored-backup",
  "system/upgrade/rolling-upgrade",
  "system/faults/read-only-store",
  "contract/postgres",
].map((name) => `/test/${name}.test.ts`);

/** The part of a test specification that the order needs; vitest's own type is not resolved by the type-aware linter. */
interface TestFile {
  readonly moduleId: string;
}

class SlowestFirst extends BaseSequencer {
  override async sort(files: Parameters<BaseSequencer["sort"]>[0]): ReturnType<BaseSequencer["sort"]> {
    const rank = ({ moduleId }: TestFile): number => {
      const place = slowest.findIndex((name) => moduleId.endsWith(name));
      return place < 0 ? slowest.length : place;
    };
    const sorted = await super.sort(files);
    return sorted.sort((one: TestFile, other: TestFile) => rank(one) - rank(other));
  }
}

export default defineConfig({
  test: {
    // Tests start real processes: a process per worker, not a thread. Files share it, which saves a second of imports
    // for each of them; test/support/file-setup.ts separates them.
    pool: "forks",
    isolate: false,
    // Most tests wait for processes of their own: two workers per core leave it idle for half of the time.
    maxWorkers: Number(process.env["SUITE_WORKERS"] ?? Math.max(5, Math.round(2.5 * availableParallelism()))),
    sequence: { sequencer: SlowestFirst },
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/file-setup.ts"],
    restoreMocks: true,
    unstubEnvs: true,
    // A process test takes milliseconds; these only bound a hang on a loaded machine.
    testTimeout: 120_000 * patience,
    hookTimeout: 120_000 * patience,
    teardownTimeout: 10_000,
    expect: { poll: { timeout: 15_000 } },
    passWithNoTests: false,
    // One or two of 6,700 tests still fail in a whole run, not the same ones. SUITE_RETRY=0 shows which.
    retry: Number(process.env["SUITE_RETRY"] ?? (process.env["CI"] === undefined ? 0 : 2)),
    ...(agents
      ? // They check all processes of the namespace.
        { include: ["test/system/real-agents/*.suite.ts"], fileParallelism: false }
      : {
          projects: [
            { extends: true, test: { name: "unit", include: unit } },
            {
              extends: true,
              test: { name: "system", include: ["test/**/*.test.ts"], exclude: [...unit, ...lineages] },
            },
            { extends: true, test: { name: "lineages", include: lineages, sequence: { groupOrder: 1 } } },
          ],
        }),
  },
});
