import { expect, test } from "vitest";
import { toolLine } from "../../../../src/cli/acp/view/texts.js";
import { paletteFor } from "../../../../src/cli/print/terminal.js";

test.each(["constructor", "__proto__", "toString", "\u001b[2J"])(
  "a status of %j is a word like any other",
  (status) => {
    const line = toolLine({ title: "ls", kind: "execute", status }, 80, paletteFor(1));
    expect(line).toContain("execute: ls");
    expect(line).not.toContain("\u001b[2J");
  },
);
