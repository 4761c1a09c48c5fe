import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** Soak runs repeat the same promises many more times. */
const patience = process.env["HOLDFAST_SOAK"] === "1" ? 20 : 1;

/** Real agents, fetched from elsewhere, are a suite of their own: `npm run test:agents`. */
const agents = process.env["AGENT_SUITE"] !== undefined;

const cores = Math.max(2, availableParallelism());

/** Tests that start no gateway and hardly any process: they compute. `npm run test:fast` runs them. */
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
  "output",
  "queries",
  "sessions",
  "simulation/parts",
  "store/{local-copy,runs,sqlite}",
  "supervisor",
  "tasks",
  "text",
].map((folder) => `test/${folder}/**/*.test.ts`);

const projects = [
  { name: "unit", include: unit, exclude: [], maxWorkers: cores },
  // These wait for processes most of the time.
  { name: "system", include: ["test/**/*.test.ts"], exclude: unit, maxWorkers: 2 * cores },
];

export default defineConfig({
  test: {
    // Tests start real processes: a process per worker, not a thread. Files share it, which saves a second of imports
    // for each of them; test/support/file-setup.ts separates them.
    pool: "forks",
    isolate: false,
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/file-setup.ts"],
    restoreMocks: true,
    unstubEnvs: true,
    // A process test takes milliseconds; these only bound a hang on a loaded machine.
    testTimeout: 120_000 * patience,
    hookTimeout: 120_000 * patience,
    teardownTimeout: 10_000,
    passWithNoTests: false,
    ...(agents
      ? // They look for what is left in all of the namespace.
        { include: ["test/system/real-agents/*.suite.ts"], fileParallelism: false }
      : {
          projects: projects.map((project, groupOrder) => ({
            extends: true,
            test: { ...project, sequence: { groupOrder } },
          })),
        }),
  },
});
