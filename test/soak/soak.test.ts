import { describe, expect, test } from "vitest";
import { type ChangedBuild, buildWithChange, type SourceChange } from "../support/changed-build.js";
import { whyNoCompiler } from "../support/native-programs.js";
import { temporaryDirectory } from "../support/temporary-directory.js";
import { injectionsOf, newTally, type Tally } from "./tally.js";
import { buildPrograms } from "./world/programs.js";
import { soakWorld } from "./world/soak-world.js";

const INJECTIONS = 12;
const SEED = 20_261_119;

async function soak(main?: string, isEnough: (tally: Tally) => boolean = () => false): Promise<Tally> {
  await using directory = await temporaryDirectory();
  const tally = newTally();
  const limits = { injections: INJECTIONS, isOver: () => isEnough(tally), postgres: false };
  await soakWorld(SEED, buildPrograms(directory.path, main), tally, limits);
  return tally;
}

const whyNot = process.platform === "linux" ? whyNoCompiler : "the soak reads /proc";

describe.skipIf(whyNot !== null)("a short soak from a fixed seed", () => {
  test("finds nothing", async () => {
    const tally = await soak();
    expect(tally.found).toEqual([]);
    expect(injectionsOf(tally)).toBeGreaterThanOrEqual(INJECTIONS);
    expect(tally.works).toBeGreaterThan(0);
  });

  const bugs: readonly (SourceChange & { readonly what: string; readonly seen: RegExp })[] = [
    {
      what: "a record with another exit code than the command's",
      file: "src/supervisor/end/terminal-record.ts",
      find: /code: leader\.code, signal: null/,
      replace: "code: leader.code === null ? null : leader.code + 100, signal: null",
      seen: /wrong end: .*\b1\d\d\b/,
    },
    {
      what: "output that lacks a byte",
      file: "src/queries/output.ts",
      find: /base64: bytes\.toString\("base64"\)/,
      replace: 'base64: bytes.subarray(0, -1).toString("base64")',
      seen: /wrong bytes: \d+ of \d+/,
    },
  ];
  for (const { what, seen, ...change } of bugs)
    test(`finds ${what}`, async () => {
      await using changed: ChangedBuild = await buildWithChange(change);
      const { found } = await soak(changed.main, (tally) => tally.found.length > 0);
      expect(found.map((problem) => problem.what)).toContainEqual(expect.stringMatching(seen));
    });
});
