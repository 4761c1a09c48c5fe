import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface CodeBlock {
  readonly page: string;
  /** The line number of the first line of `text`, counted from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
}

/** The pages whose code blocks are executed or checked. */
export const pages = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name))
    .toSorted(),
];

export function codeBlocks(page: string): CodeBlock[] {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(
    ({ index, 1: language = "", 2: inside = "" }) => ({
      page,
      line: text.slice(0, index).split("\n").length + 1,
      language,
      text: inside,
    }),
  );
}

/** The texts between backquotes outside code blocks. */
export function inlineCode(page: string): string[] {
  const prose = readFileSync(page, "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
}
