import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface CodeBlock {
  readonly page: string;
  /** Where its text begins, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
}

export const pages = [
  "README.md",
  ...readdirSync("docs")
    .filter(isPage)
    .map((name) => join("docs", name)),
];

function isPage(name: string): boolean {
  return name.endsWith(".md");
}

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

/** What stands in backquotes in running text. */
export function inlineCode(page: string): string[] {
  const prose = readFileSync(page, "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
}
