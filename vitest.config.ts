import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** Soak runs repeat the same promises many more times. */
const patience = process.env["HOLDFAST_SOAK"] === "1" ? 20 : 1;

/** Real agents, fetched from elsewhere, are a suite of their own: `npm run test:agents`. */
const agents = process.env["AGENT_SUITE"] !== undefined;

export default defineConfig({
  test: {
    include: [agents ? "test/system/real-agents/*.suite.ts" : "test/**/*.test.ts"],
    // They look for what is left in all of the namespace.
    fileParallelism: !agents,
    // Tests start real processes and change umask, cwd and signal handlers: a process per file, not a thread.
    pool: "forks",
    // By default one processor is left free; but most of these tests wait for processes of their own.
    maxWorkers: Math.max(2, availableParallelism()),
    setupFiles: ["test/support/fail-on-warnings.ts"],
    // A process test takes milliseconds; these only bound a hang on a loaded two-core machine.
    testTimeout: 60_000 * patience,
    hookTimeout: 60_000 * patience,
    teardownTimeout: 10_000,
    // A promise that is sometimes kept is broken. On a machine that builds for others, one more look tells a slow
    // machine from a broken promise; what needed it is named in the report.
    retry: process.env["CI"] === undefined ? 0 : 2,
    passWithNoTests: false,
  },
});
