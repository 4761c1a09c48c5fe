// Checks the direction of imports between the folders of src/ and between their sub-folders, and that no files import
// each other in a cycle (imports of types count).
//
// The same for the dashboard in web/src, which shares only types with src/.
//
// Usage: check-imports.mjs [src directory [web/src directory]]

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

/** The folders of src/, lowest first. A folder may import the folders before its own entry. */
const layers = [
  "model",
  "async",
  "text",
  "home",
  "config",
  ["anchor", "store"],
  "terminal",
  "output",
  "supervisor",
  "sessions",
  "agents",
  "acp",
  "tasks",
  "channels",
  "api",
  "queries",
  "mcp",
  "gateway",
  ["cli", "web"],
];

/** The same order inside a folder: its sub-folders and files, lowest first. `*` stands for the files that are not named. */
const inside = {
  anchor: [["binary.ts", "run-dir"], "one-shot-modes.ts", "inspect", "protocol", "instance", "host.ts", "*"],
  supervisor: [
    ["check-options.ts", "reconcile-decision.ts"],
    "api.ts",
    "run",
    "inspect",
    "end",
    "lease",
    "attach",
    "stop",
    ["spawn", "reconcile"],
    "*",
  ],
  acp: [
    ["agent-command.ts", "limits.ts", "session-writer.ts"],
    "wire",
    "turn",
    "permissions",
    "client",
    "agent",
    "session",
    "*",
  ],
  gateway: [
    ["gateway-files.ts", "systemd-scope.ts"],
    "locate-gateway.ts",
    ["monitoring", "auth"],
    "peers",
    "background",
    "foreground",
    "routes",
    "server",
    ["dashboard", "doctor"],
    "*",
  ],
  cli: [
    "options",
    "print",
    "client",
    "stop",
    "run",
    "runs",
    "process",
    ["service", "gateway", "agents"],
    "acp",
    "approvals",
    ["sessions", "tasks"],
    ["config", "dashboard", "store", "state", "notify", "unmanaged", "doctor", "completion", "shellenv"],
    "mcp",
    "*",
  ],
};

/** The command line talks to the gateway through `api` and `queries`. */
const forbidden = { cli: ["gateway/server", "gateway/routes", "gateway/peers", "gateway/background"] };

/** Schemas of model/ load zod, so only these folders may import them as values; others import types. */
const loadSchemas = ["api", "config"];

/** Files at the root of src/ that every folder may import. They import no folder but their own (errors.ts: errors/). */
const shared = ["errors.ts", "defaults.ts"];

/** The folders of web/src/, lowest first. Views do not import each other's folders, so that each loads alone. */
const webLayers = [
  "styles",
  "defaults.ts",
  "api",
  "router",
  "live",
  ["components", "charts"],
  "views",
  "app",
];
const webPackages = [
  "preact",
  "@preact/signals",
  "@xterm/xterm",
  "@xterm/addon-fit",
  "@xterm/addon-search",
  "uplot",
];
/** The types of the API, and pure code that needs neither Node nor other code of src/. */
const webTypes = ["api/", "model/"];
const webValues = ["api/endpoints.ts", "text/format-units.ts", "text/task-event.ts"];

/** Only the anchor code starts processes, except stty(1) for our own terminal, the gateway (with its scope), the browser, and tools of the system. */
const startsProcesses = [
  "anchor/",
  "cli/dashboard/open-browser.ts",
  "cli/run/controlling-terminal.ts",
  "gateway/start-in-background.ts",
  "gateway/systemd-scope.ts",
  "home/machine-facts.ts",
  "cli/service/",
];
const restricted = { "node:child_process": startsProcesses, child_process: startsProcesses };

const root = resolve(process.argv[2] ?? "src");
const files = sourcesBelow(root);

const violations = [];
const imported = new Map();
for (const file of files) {
  const targets = [];
  for (const { specifier, line, typeOnly } of importsOf(readFileSync(file, "utf8"))) {
    const problem = findProblem(pathOf(file), file, specifier, typeOnly);
    if (problem !== null) violations.push(`${relative(process.cwd(), file)}:${line}: ${problem}`);
    if (specifier.startsWith(".")) targets.push(targetOf(file, specifier));
  }
  imported.set(file, targets);
}
for (const cycle of cycles(imported)) violations.push(`import cycle: ${cycle.map(pathOf).join(" → ")}`);
const webRoot = resolve(process.argv[3] ?? join(root, "../web/src"));
const webFiles = existsSync(webRoot) ? sourcesBelow(webRoot) : [];
for (const file of webFiles)
  for (const { specifier, line, typeOnly } of importsOf(readFileSync(file, "utf8"))) {
    const problem = findProblemInWeb(file, specifier, typeOnly);
    if (problem !== null) violations.push(`${relative(process.cwd(), file)}:${line}: ${problem}`);
  }
for (const violation of violations) console.error(violation);
if (violations.length > 0) process.exitCode = 1;
else console.log(`imports point the right way in ${files.length + webFiles.length} files`);

function sourcesBelow(directory) {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.[cm]?tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
}

function findProblemInWeb(file, specifier, typeOnly) {
  if (!specifier.startsWith("."))
    return webPackages.some((each) => specifier === each || specifier.startsWith(`${each}/`))
      ? null
      : `web/ may not import "${specifier}"`;
  const target = targetOf(file, specifier);
  const inSrc = relative(root, target).split(sep).join("/");
  if (!inSrc.startsWith("..")) {
    if (webValues.includes(inSrc)) return null;
    const shares = typeOnly && webTypes.some((each) => inSrc.startsWith(each));
    return shares
      ? null
      : `web/ may import only types, of ${webTypes.join(" and ")}, and ${webValues.join(", ")} from src/`;
  }
  const [from, to] = [file, target].map((each) => relative(webRoot, each).split(sep));
  if (to[0] === "..") return `"${specifier}" leaves web/src`;
  if (from[0] === "views" && to[0] === "views" && from[1] !== to[1])
    return `web/src/views/${from[1]} may not import views/${to[1]}: move what both need to components/`;
  if (from.length === 1 || from[0] === to[0]) return null;
  const [position, wanted] = [from, to].map(([folder]) => positionIn(webLayers, folder));
  if (position === -1) return `web/src/${from[0]}/ is not listed in scripts/check-imports.mjs`;
  return wanted === -1 || wanted >= position ? `web/src/${from[0]}/ may not import ${to[0]}/` : null;
}

function findProblem(from, file, specifier, typeOnly) {
  if (!specifier.startsWith(".")) {
    const allowed = restricted[specifier];
    return allowed === undefined || allowed.some((each) => from.startsWith(each))
      ? null
      : `"${specifier}" is for src/anchor/ only: ask the anchor to start processes`;
  }
  const to = pathOf(targetOf(file, specifier));
  if (to.startsWith("..")) return `"${specifier}" leaves src`;
  if (webValues.includes(from) && !typeOnly && !webValues.includes(to))
    return `${from} is part of the page in web/ and may import only ${webValues.join(", ")}`;
  if (to === "index.ts") return "index.ts is the public library; import the module itself";
  const [fromFolder, ...fromRest] = from.split("/");
  const [toFolder, ...toRest] = to.split("/");
  if (toRest.length === 0)
    return shared.includes(to)
      ? null
      : `"${to}" is not one of the root files open to all (${shared.join(", ")})`;
  if (fromRest.length === 0) {
    if (shared.includes(from) && from === `${toFolder}.ts`) return null;
    if (from !== "index.ts")
      return `src/${from} is shared and may import no folder, but imports ${toFolder}/`;
    return layers.at(-1).includes(toFolder)
      ? `index.ts is the library; it may not import ${toFolder}/`
      : null;
  }
  if (toFolder === "model" && !typeOnly && ![...loadSchemas, "model"].includes(fromFolder))
    if (loadsZod(targetOf(file, specifier)))
      return `${fromFolder}/ may import only types from ${to}, which loads zod`;
  if (fromFolder === toFolder) return findProblemInside(fromFolder, fromRest, toRest);
  const position = positionIn(layers, fromFolder);
  if (position === -1) return `src/${fromFolder}/ is not listed in scripts/check-imports.mjs`;
  const target = positionIn(layers, toFolder);
  if (target === -1 || target >= position) return `${fromFolder}/ may not import ${toFolder}/ (${specifier})`;
  const barred = forbidden[fromFolder]?.find((each) => to.startsWith(`${each}/`));
  return barred === undefined ? null : `${fromFolder}/ may not import ${barred}/ (${specifier})`;
}

function loadsZod(file) {
  return importsOf(readFileSync(file, "utf8")).some((each) => each.specifier === "zod" && !each.typeOnly);
}

function findProblemInside(folder, from, to) {
  const order = inside[folder];
  if (order === undefined || from[0] === to[0]) return null;
  const position = positionIn(order, from[0]);
  const target = positionIn(order, to[0]);
  if (position === -1 || target === -1) {
    const unlisted = position === -1 ? from : to;
    // Files that are not named have one place, and may import each other.
    if (unlisted.length > 1)
      return `src/${folder}/${unlisted[0]}/ is not listed in scripts/check-imports.mjs`;
  }
  const star = order.indexOf("*");
  const [a, b] = [position === -1 ? star : position, target === -1 ? star : target];
  if (b < a || (a === b && a === star)) return null;
  return `${folder}/${from[0]} may not import ${folder}/${to[0]}`;
}

function positionIn(order, name) {
  return order.findIndex((entry) => (Array.isArray(entry) ? entry.includes(name) : entry === name));
}

function targetOf(file, specifier) {
  return resolve(dirname(file), specifier.replace(/\.([cm]?)js(x?)$/, ".$1ts$2"));
}

function pathOf(file) {
  return relative(root, file).split(sep).join("/");
}

/** Strongly connected components of more than one file (Tarjan). */
function cycles(graph) {
  const state = new Map();
  const stack = [];
  const found = [];
  for (const file of graph.keys()) if (!state.has(file)) visit(file);
  return found;

  function visit(file) {
    const own = { index: state.size, low: state.size, open: true };
    state.set(file, own);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!graph.has(next)) continue;
      if (!state.has(next)) visit(next);
      if (state.get(next).open) own.low = Math.min(own.low, state.get(next).low);
    }
    if (own.low !== own.index) return;
    const component = stack.splice(stack.indexOf(file));
    for (const each of component) state.get(each).open = false;
    if (component.length > 1) found.push(component);
  }
}

function importsOf(text) {
  // Comments are blanked, not removed, so that line numbers stay correct. Strings are kept whole: "https://…".
  const code = text.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (all, string) => string ?? all.replace(/[^\n]/g, " "),
  );
  const statement =
    /(?:^|[\n;}])\s*(?:import|export)\s+(type\s)?[^"';]*?from\s*["']([^"']+)["']|(?:^|[\n;}])\s*import\s*["']([^"']+)["']|\bimport\s*\(\s*["']([^"']+)["']/g;
  return [...code.matchAll(statement)].map((match) => {
    const specifier = match[2] ?? match[3] ?? match[4];
    return {
      typeOnly: match[1] !== undefined,
      specifier,
      line: code.slice(0, match.index + match[0].lastIndexOf(specifier)).split("\n").length,
    };
  });
}
