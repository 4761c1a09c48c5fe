// For node --import: appends the URL of every module that is loaded to the file $NOTE_MODULES.
import { register } from "node:module";

const hook = `
  import { appendFileSync } from "node:fs";
  export function load(url, context, next) {
    appendFileSync(${JSON.stringify(process.env.NOTE_MODULES)}, url + "\\n");
    return next(url, context);
  }`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
