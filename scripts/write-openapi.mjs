// Writes docs/openapi.json, the document that a gateway serves at /openapi.json. Run after a build when the contract has changed.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openApiDocument } from "../dist/api/openapi.js";

const WIDTH = 110;

/** JSON with every value that fits on one line. */
function format(value, indent = "", used = 0) {
  const line = JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, " ");
  const isLeaf = typeof value !== "object" || value === null;
  if (isLeaf || indent.length + used + line.length < WIDTH) return line;
  const inner = `${indent}  `;
  const items = Array.isArray(value)
    ? value.map((each) => `${inner}${format(each, inner)}`)
    : Object.entries(value).map(([key, each]) => {
        const name = `${JSON.stringify(key)}: `;
        return `${inner}${name}${format(each, inner, name.length)}`;
      });
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${items.join(",\n")}\n${indent}${close}`;
}

const file = fileURLToPath(new URL("../docs/openapi.json", import.meta.url));
writeFileSync(file, `${format(openApiDocument())}\n`);
