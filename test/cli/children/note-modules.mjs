// Given to node by --import: notes every module that is loaded after it in the file that NOTE_MODULES names.
import { register } from "node:module";

const hook = `
  import { appendFileSync } from "node:fs";
  export function load(url, context, next) {
    appendFileSync(${JSON.stringify(process.env.NOTE_MODULES)}, url + "\\n");
    return next(url, context);
  }`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
