// Scenarios with an anchor on Windows. Runs in node.exe: `node main.mjs NAME`; prints its observations as one line of JSON.
import { commands } from "./commands.mjs";
import { gateways } from "./gateways.mjs";
import { launchers } from "./launchers.mjs";
import { trees } from "./trees.mjs";

const scenarios = { ...commands, ...gateways, ...launchers, ...trees };
const [name, ...words] = process.argv.slice(2);
const result = await scenarios[name](...words);
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
