// The command line with other default numbers.
//   node override-defaults.mjs <dist> <numbers as JSON> <arguments…>
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [node, script, built, numbers, ...words] = process.argv;
const load = (path) => import(pathToFileURL(join(built, path)).href);
const { defaults } = await load("defaults.js");
Object.assign(defaults, JSON.parse(numbers));
const { runProgram } = await load("cli/program.js");
process.exit(await runProgram([node, script, ...words]));
