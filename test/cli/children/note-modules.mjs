// For node --import: appends the URL of every module that is loaded to the file $NOTE_MODULES.
import { appendFileSync } from "node:fs";
import { createRequire, register } from "node:module";
import { pathToFileURL } from "node:url";

const hook = `
  import { appendFileSync } from "node:fs";
  export function load(url, context, next) {
    appendFileSync(${JSON.stringify(process.env.NOTE_MODULES)}, url + "\\n");
    return next(url, context);
  }`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

// CommonJS modules are loaded without the hook.
const { cache } = createRequire(import.meta.url);
process.on("exit", () => {
  for (const path of Object.keys(cache)) appendFileSync(process.env.NOTE_MODULES, `${pathToFileURL(path)}\n`);
});
