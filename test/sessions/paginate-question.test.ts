import { expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import {
  type ApprovalQuestion,
  NO_STDIN,
  questionAboutCommand,
  type QuestionPart,
} from "../../src/sessions/approval-question.js";
import { pageOfQuestion } from "../../src/sessions/paginate-question.js";

function questionAbout(argv: readonly string[]): ApprovalQuestion {
  const env = { set: {}, unset: [], unlisted: [] };
  return questionAboutCommand({ executable: "/bin/sh", argv, cwd: "/work", env, stdin: NO_STDIN });
}

test("a question about a command of any length has pages of bounded size", async () => {
  const script = `${"echo '\u001b' \\\n".repeat(100_000)}id > /tmp/last`;
  const question = questionAbout(["sh", "-c", script, ...Array<string>(50_000).fill("x")]);
  expect(question.whole).toBe(false);
  expect(question.summary.length).toBeLessThan(defaults.displayCommandChars + 40);
  expect(question.summary).toContain("not shown whole");
  const { pages } = await pageOfQuestion(question, 1, false);
  for (const number of [1, 2, Math.ceil(pages / 2), pages - 1, pages]) {
    const { page, digest, parts } = await pageOfQuestion(question, number, false);
    expect(page).toBe(number);
    expect(digest).toBe(number === pages ? question.digest : null);
    expect(JSON.stringify(parts).length).toBeLessThan(4 * defaults.questionPageChars);
  }
  expect((await pageOfQuestion(question, pages + 7, false)).page).toBe(pages);
});

test("the pages of a question together are the whole question", async () => {
  const question = questionAbout(["echo", "y ".repeat(200_000), "z"]);
  const parts: QuestionPart[] = [];
  for (let page = 1, pages = 1; page <= pages; page++) {
    const next = await pageOfQuestion(question, page, false);
    parts.push(...next.parts);
    ({ pages } = next);
  }
  expect(parts).toEqual([...question.parts()]);
});
