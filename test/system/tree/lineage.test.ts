import { describe, test } from "vitest";
import { lineageTier, useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";
import { nobodyUser, rootUser } from "../../support/sandbox.js";
import { checkNothingIsLeft } from "./check-end.js";
import { ends } from "./run-ends.js";

useDarwinAnchor();

/** Each end with a pipe as root and with a terminal as an ordinary user. */
const matrix = ends.flatMap((end) => [
  { end, io: "pipe" as const, user: rootUser, tier: lineageTier },
  { end, io: "pty" as const, user: nobodyUser, tier: lineageTier },
]);

describe.concurrent("nothing is left with the files for macOS", () => {
  test.for(matrix.map((each) => [each.end.name, each.io, each.user.name, each] as const))(
    "after %s: %s, %s",
    async ([, , , each], { skip }) => {
      const whyNot = whyNoDarwinShim ?? each.user.whyNot;
      if (whyNot !== null) skip(whyNot);
      await checkNothingIsLeft(each);
    },
  );
});
