import { expect, test } from "vitest";
import { noticeLine } from "../../../../src/cli/acp/view/notice-texts.js";
import { createPalette } from "../../../../src/cli/print/colours-and-progress.js";

const plainPalette = createPalette(false);

test("notices and compactions are one line; other updates none", () => {
  const notice = { sessionUpdate: "notice", severity: "warning", title: "Quota", description: "80 %\nused" };
  expect(noticeLine(notice, 80, plainPalette)).toBe("! Quota: 80 % used");
  const compaction = { sessionUpdate: "compaction_update", compactionId: "1", status: "in_progress" };
  expect(noticeLine(compaction, 80, plainPalette)).toBe("context compaction: in progress");
  expect(noticeLine({ sessionUpdate: "other", title: "x" }, 80, plainPalette)).toBeNull();
});
