import { spawn } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { defaults } from "../../defaults.js";
import { writeOwnFile } from "../../home/own-file.js";
import { splitShellWords } from "../../text/shell-words.js";

/** `remote`: a browser would open on this machine, which the user reached through SSH. */
export type Opened =
  | { readonly outcome: "opened" }
  | { readonly outcome: "remote" }
  | { readonly outcome: "no-display" }
  | { readonly outcome: "failed"; readonly reasons: readonly string[] };

type BrowserCommand = readonly [string, ...string[]];

/**
 * Opens a link in the user's browser. Every user of the machine can read the arguments of a process, so the browser gets
 * the name of a private file that leads to the link.
 */
export async function openInBrowser(home: string, url: string): Promise<Opened> {
  const missing = whyNoScreen(process.platform, process.env);
  if (missing !== null) return { outcome: missing };
  const path = join(home, "dashboard-link.html");
  writeOwnFile(
    path,
    `<!doctype html><meta charset="utf-8"><title>Holdfast</title><meta http-equiv="refresh" content="0; url=${url}">\n`,
  );
  const reasons: string[] = [];
  for (const command of browserCommands(process.platform, process.env, pathToFileURL(path).href)) {
    const problem = await start(command);
    if (problem === null) return { outcome: "opened" };
    reasons.push(problem);
  }
  return { outcome: "failed", reasons };
}

/** Null: a browser can be opened. `BROWSER` is the user's decision that one can. */
export function whyNoScreen(
  platform: NodeJS.Platform,
  env: NodeJS.ProcessEnv,
): "remote" | "no-display" | null {
  const isSet = (...names: readonly string[]): boolean => names.some((name) => (env[name] ?? "") !== "");
  if (platform === "win32" || isSet("BROWSER")) return null;
  if (isSet("DISPLAY", "WAYLAND_DISPLAY")) return null;
  if (isSet("SSH_CONNECTION", "SSH_TTY")) return "remote";
  return platform === "darwin" ? null : "no-display";
}

/**
 * The commands to try in turn. `BROWSER` is a list of commands separated by colons, in which `%s` stands for the page, as
 * xdg-open and other programs read it.
 */
export function browserCommands(
  platform: NodeJS.Platform,
  env: NodeJS.ProcessEnv,
  file: string,
): readonly BrowserCommand[] {
  if (platform === "win32") return [["rundll32", "url.dll,FileProtocolHandler", file]];
  const chosen = env["BROWSER"] ?? "";
  if (chosen === "") return [[platform === "darwin" ? "open" : "xdg-open", file]];
  return chosen.split(":").flatMap((text) => {
    const words = splitShellWords(text) ?? text.split(" ");
    const [program, ...rest] = words.map((word) => word.replaceAll("%s", file));
    if (program === undefined || program === "") return [];
    return [[program, ...rest, ...(text.includes("%s") ? [] : [file])] as const];
  });
}

/** Null: it opens the page. A browser itself runs on; a program that hands the page to one ends soon. */
function start([program, ...words]: BrowserCommand): Promise<string | null> {
  // In a session of its own: Ctrl-C in this terminal does not end a browser.
  const child = spawn(program, words, { stdio: "ignore", detached: true, windowsHide: true });
  child.unref();
  return new Promise((resolve) => {
    const shown = setTimeout(() => resolve(null), defaults.dashboardBrowserMs);
    const end = (problem: string | null): void => {
      clearTimeout(shown);
      resolve(problem);
    };
    child.once("error", ({ message }) => end(`${program}: ${message}`));
    child.once("exit", (code, signal) => {
      if (code === 0) end(null);
      else end(`${program} ended with ${signal ?? `exit code ${code}`}`);
    });
  });
}
