import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LOGIN_CAPABILITIES } from "../../src/acp/login-agent.js";
import { NO_CLIENT_ACCESS, toClientCapabilities } from "../../src/config/client-access.js";

interface SchemaNode {
  readonly $ref?: string;
  readonly const?: string;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly anyOf?: readonly SchemaNode[];
  readonly allOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
  readonly "x-method"?: string;
  readonly "x-side"?: string;
}
type Definitions = Readonly<Record<string, SchemaNode>>;

const require = createRequire(import.meta.url);

/** The definitions of the installed schema of protocol version 1. */
function definitions(name: string): Definitions {
  const path = require.resolve(`@agentclientprotocol/sdk/schema/v1/${name}`);
  return (JSON.parse(readFileSync(path, "utf8")) as { readonly $defs: Definitions }).$defs;
}
const stable = definitions("schema.json");
const unstable = definitions("schema.unstable.json");

/** Methods that the agent handles; those of both sides and of proxies count as such. */
function methodsOf(defs: Definitions, ofClient: boolean): string[] {
  const found = Object.values(defs).flatMap((each) => {
    const method = each["x-method"];
    return method === undefined || (each["x-side"] === "client") !== ofClient ? [] : [method];
  });
  return [...new Set(found)];
}

function updatesOf(defs: Definitions): string[] {
  return (defs["SessionUpdate"]?.oneOf ?? []).flatMap(
    ({ properties }) => properties?.["sessionUpdate"]?.const ?? [],
  );
}

/** The paths of the capabilities that have no parts of their own. */
function capabilitiesOf(defs: Definitions, name: string, prefix = ""): string[] {
  return Object.entries(defs[name]?.properties ?? {}).flatMap(([field, node]) => {
    if (field === "_meta") return [];
    const parts = [node, ...(node.anyOf ?? []), ...(node.allOf ?? []), ...(node.oneOf ?? [])]
      .flatMap(({ $ref }) => ($ref === undefined ? [] : [$ref.slice($ref.lastIndexOf("/") + 1)]))
      .flatMap((each) => capabilitiesOf(defs, each, `${prefix}${field}.`));
    return parts.length === 0 ? [`${prefix}${field}`] : parts;
  });
}

interface Row {
  readonly name: string;
  readonly status: string;
  readonly unstable: boolean;
}

/** The rows of the table with this heading. */
function tableRows(heading: string): Row[] {
  const page = readFileSync("docs/reference/acp.md", "utf8");
  const [, body = ""] = page.split(`| ${heading} | | |\n|---|---|---|\n`);
  const [table = ""] = body.split("\n\n");
  return table.split("\n").map((line) => {
    const [, name = "", status = "", remark = ""] = line.split("|").map((cell) => cell.trim());
    return { name: name.replaceAll("`", ""), status, unstable: remark.startsWith("unstable") };
  });
}

const TABLES = {
  "method of the agent": (defs) => methodsOf(defs, false),
  "method of the client": (defs) => methodsOf(defs, true),
  "kind of `session/update`": updatesOf,
  "capability of the agent": (defs) => capabilitiesOf(defs, "AgentCapabilities"),
  "capability of the client": (defs) => capabilitiesOf(defs, "ClientCapabilities"),
} satisfies Readonly<Record<string, (defs: Definitions) => string[]>>;

test.each(Object.entries(TABLES))(
  "the table of each %s names all of the installed schema",
  (heading, read) => {
    const rows = tableRows(heading);
    expect(rows.map(({ name }) => name).sort()).toEqual([...new Set(read(unstable))].sort());
    const marked = rows.filter((row) => row.unstable).map(({ name }) => name);
    expect(marked.sort()).toEqual(
      [...new Set(read(unstable))].filter((each) => !read(stable).includes(each)).sort(),
    );
    for (const { name, status } of rows)
      expect(["supported", "passed through", "refused"], name).toContain(status);
  },
);

function readSources(directory: string): string {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((each) => each.endsWith(".ts"))
    .map((each) => readFileSync(join(directory, each), "utf8"))
    .join("\n");
}

test("a supported method occurs in the code, and a refused one does not", () => {
  const code = readSources("src/acp");
  for (const heading of ["method of the agent", "method of the client"])
    for (const { name, status } of tableRows(heading))
      expect([name, code.includes(`"${name}"`)]).toEqual([name, status === "supported"]);
});

test("the client advertises what its table says", () => {
  const all = { ...NO_CLIENT_ACCESS, files: "read-write", terminals: true } as const;
  const advertised = (value: unknown, path: string): string[] => {
    if (value === false) return [];
    if (typeof value !== "object" || value === null || Object.keys(value).length === 0) return [path];
    return Object.entries(value).flatMap(([field, each]) =>
      advertised(each, path === "" ? field : `${path}.${field}`),
    );
  };
  const supported = tableRows("capability of the client").filter(({ status }) => status === "supported");
  const { auth } = LOGIN_CAPABILITIES;
  const capabilities = { ...toClientCapabilities(all), auth };
  expect(advertised(capabilities, "").sort()).toEqual(supported.map(({ name }) => name).sort());
});
