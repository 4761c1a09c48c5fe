// Writes docs/openapi.json: what a gateway serves at /openapi.json. Run after a build when the contract has changed.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openApiDocument } from "../dist/api/openapi.js";

const file = fileURLToPath(new URL("../docs/openapi.json", import.meta.url));
writeFileSync(file, `${JSON.stringify(openApiDocument(), null, 2)}\n`);
