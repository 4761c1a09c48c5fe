import { setImmediate } from "node:timers/promises";
import { afterAll } from "vitest";

/**
 * Any warning of Node (a listener leak, a deprecated call, a timer overflow) fails the file it appeared in.
 * Unhandled rejections fail the suite already.
 */
const warnings: Error[] = [];
process.on("warning", (warning) => warnings.push(warning));

afterAll(async () => {
  // Warnings are emitted on the next tick; let the last test's come out.
  await setImmediate();
  if (warnings.length > 0)
    throw new AggregateError(
      warnings,
      warnings.map((warning) => `${warning.name}: ${warning.message}`).join("\n"),
    );
});
