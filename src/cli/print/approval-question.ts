import type { ResponseOf } from "../../api/contract.js";
import { questionLines } from "../../sessions/question-pages.js";

type QuestionPage = Pick<ResponseOf<"showApproval">, "page" | "pages" | "parts" | "digest">;

/** All pages of a question to the operator. `digest` is null if the question does not wait at this gateway. */
export interface WholeQuestion<First extends QuestionPage> {
  readonly first: First;
  readonly parts: QuestionPage["parts"];
  readonly digest: string | null;
}

export async function readWholeQuestion<First extends QuestionPage>(
  read: (page: number) => Promise<First>,
): Promise<WholeQuestion<First>> {
  const first = await read(1);
  const parts = [...first.parts];
  let { digest } = first;
  for (let page = 2; page <= first.pages; page++) {
    const next = await read(page);
    parts.push(...next.parts);
    ({ digest } = next);
  }
  return { first, parts, digest };
}

/** The question as lines of text, followed by how to reveal masked secrets and how to answer. `show` and `allow` are subcommands of `command`. */
export function wholeQuestionLines(
  { parts, digest }: Pick<WholeQuestion<QuestionPage>, "parts" | "digest">,
  command: string,
  id: string,
): string[] {
  const masked = parts.reduce((sum, part) => sum + part.masked, 0);
  return [
    ...questionLines(parts),
    ...(masked === 0 ? [] : [`masked secrets: ${masked}; to see them: ${command} show ${id} --reveal`]),
    ...(digest === null ? [] : [`to allow exactly this question: ${command} allow ${id} --digest ${digest}`]),
  ];
}
