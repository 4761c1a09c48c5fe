// Keeps the direction of imports: nothing below knows anything above.
//
//   anchor, store → output → supervisor → sessions, acp, agents, tasks, channels → gateway → cli, mcp, web
//
// Usage: check-imports.mjs [src directory]

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

const floor = ["anchor", "store"];
const runs = [...floor, "output", "supervisor"];
const domain = ["sessions", "acp", "agents", "tasks", "channels"];
const faces = ["cli", "mcp", "web"];

/** What the files of a folder may import, beside their own folder. */
const mayImport = {
  anchor: ["store"],
  store: [],
  output: floor,
  supervisor: [...floor, "output"],
  ...Object.fromEntries(domain.map((name) => [name, [...runs, ...domain]])),
  gateway: [...runs, ...domain],
  ...Object.fromEntries(faces.map((name) => [name, [...runs, ...domain, "gateway"]])),
};

/** Types only: neighbours may share a vocabulary without needing each other at run time. */
const mayImportTypes = { store: ["anchor"] };

/** Files at the root of src that every folder may import, and that import no folder. */
const forAll = ["errors.ts", "defaults.ts"];

/** The anchor's code alone starts processes; but stty(1), which sets our own terminal, and a gateway are no processes of a run. */
const startsProcesses = ["anchor/", "cli/foreground/terminal.ts", "gateway/start.ts"];
const restricted = { "node:child_process": startsProcesses, child_process: startsProcesses };

const root = resolve(process.argv[2] ?? "src");
const files = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.[cm]?tsx?$/.test(entry.name))
  .map((entry) => join(entry.parentPath, entry.name));

const violations = [];
for (const file of files.toSorted()) {
  for (const { specifier, typeOnly, line } of importsOf(readFileSync(file, "utf8"))) {
    const problem = judge(file, specifier, typeOnly);
    if (problem !== null) violations.push(`${relative(process.cwd(), file)}:${line}: ${problem}`);
  }
}
for (const violation of violations) console.error(violation);
if (violations.length > 0) process.exitCode = 1;
else console.log(`imports point the right way in ${files.length} files`);

function judge(file, specifier, typeOnly) {
  const from = folderOf(file);
  if (!specifier.startsWith(".")) {
    const place = relative(root, file).split(sep).join("/");
    const allowed = restricted[specifier];
    return allowed === undefined || allowed.some((each) => place.startsWith(each))
      ? null
      : `"${specifier}" is for src/anchor/ only: ask the anchor to start processes`;
  }
  const target = resolve(dirname(file), specifier.replace(/\.([cm]?)js(x?)$/, ".$1ts$2"));
  const inside = relative(root, target);
  if (inside.startsWith("..")) return `"${specifier}" leaves src`;
  if (inside === "index.ts") return "index.ts is the public face; import the module itself";
  const to = folderOf(target);
  if (to === null) {
    return forAll.includes(inside)
      ? null
      : `"${inside}" is not one of the root files open to all (${forAll.join(", ")})`;
  }
  if (from === to) return null;
  if (from === null) {
    if (relative(root, file) !== "index.ts")
      return `src/${relative(root, file)} is for all and may import no folder, but imports ${to}/`;
    return faces.includes(to) ? `index.ts is the library; it may not import the face ${to}/` : null;
  }
  const allowed = mayImport[from];
  if (allowed === undefined)
    return `src/${from}/ has no place in the direction of imports; give it one in scripts/check-imports.mjs`;
  if (allowed.includes(to)) return null;
  if (mayImportTypes[from]?.includes(to)) {
    return typeOnly ? null : `${from}/ may import only types from ${to}/; write "import type"`;
  }
  return `${from}/ may not import ${to}/ (${specifier})`;
}

/** The folder directly under src, or null for a file at its root. */
function folderOf(path) {
  const parts = relative(root, path).split(sep);
  return parts.length > 1 ? parts[0] : null;
}

function importsOf(text) {
  // Comments are blanked, not removed, so that line numbers stay true. Strings are kept whole: "https://…".
  const code = text.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (all, string) => string ?? all.replace(/[^\n]/g, " "),
  );
  const statement =
    /(?:^|[\n;}])\s*(?:import|export)\s+(type\s)?[^"';]*?from\s*["']([^"']+)["']|(?:^|[\n;}])\s*import\s*["']([^"']+)["']|\bimport\s*\(\s*["']([^"']+)["']/g;
  return [...code.matchAll(statement)].map((match) => {
    const specifier = match[2] ?? match[3] ?? match[4];
    return {
      specifier,
      typeOnly: match[1] !== undefined,
      line: code.slice(0, match.index + match[0].lastIndexOf(specifier)).split("\n").length,
    };
  });
}
