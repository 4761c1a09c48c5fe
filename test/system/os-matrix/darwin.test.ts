import { describe } from "vitest";
import { useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";

useDarwinAnchor();

/** The same tests with the files of the anchor for macOS. The query makes them modules of their own. */
describe.skipIf(whyNoDarwinShim !== null)("macOS shim", async () => {
  for (const name of ["run-end", "pty-interactive", "reconcile"])
    await import(/* @vite-ignore */ `./${name}.test.ts?darwin`);
});
