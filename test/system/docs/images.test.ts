import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { docImages, IMAGES, shownImages } from "../../support/dashboard/doc-images.js";
import { codeBlocks } from "./pages.js";
import { parseTranscript } from "./transcript.js";

/** Together, so that a clone stays small. */
const ALL_BYTES = 1_000_000;
const SVG_BYTES = 150_000;

test("every image of the docs exists, is made by a program, and is shown", () => {
  const files = readdirSync(IMAGES).toSorted();
  expect(Object.keys(docImages).toSorted()).toEqual(files);
  expect([...new Set(shownImages().map((path) => basename(path)))].toSorted()).toEqual(files);
  for (const path of shownImages()) expect(statSync(path).isFile(), path).toBe(true);
  for (const [name, maker] of Object.entries(docImages))
    expect(readFileSync(maker, "utf8"), `${maker} makes ${name}`).toContain(name);
  const sizes = files.map((file) => statSync(join(IMAGES, file)).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(ALL_BYTES);
});

test("the recording executes the commands of the README, and has no scripts", () => {
  const svg = readFileSync(join(IMAGES, "first-run.svg"), "utf8");
  expect(svg.length).toBeLessThan(SVG_BYTES);
  expect(svg).not.toMatch(/<script|javascript:|\son\w+=|https?:(?!\/\/www\.w3\.org\/2000\/svg")/i);
  expect(svg).not.toContain("/tmp/");
  const block = codeBlocks("README.md").find(({ language }) => language === "console");
  const commands = parseTranscript(block?.text ?? "").map(({ command }) => `$ ${command}`);
  const recorded = [...svg.matchAll(/<text[^>]*>(\$ [^<]+)</g)].map(([, text = ""]) => unescape(text));
  expect(unescape(/<desc[^>]*>([\s\S]*?)<\/desc>/.exec(svg)?.[1] ?? "").split("\n")).toEqual(commands);
  // Typed key by key: each whole command was on the screen, in this order.
  const whole = recorded.filter((text) => commands.includes(text));
  expect([...new Set(whole)]).toEqual(commands);
});

function unescape(text: string): string {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
