import { lstatSync, statSync } from "node:fs";
import { win32 } from "node:path";
import { BadInput } from "../../errors.js";

/** The command as the anchor starts it. */
export interface LaunchCommand {
  readonly argv: readonly string[];
  /**
   * Only on Windows: the words after the first are joined with spaces and not quoted. Otherwise the anchor quotes each
   * word as programs of Microsoft's C runtime parse it.
   */
  readonly verbatim: boolean;
}

export interface WindowsContext {
  /** The environment of the run. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly isFile?: (path: string) => boolean;
}

/** CreateProcess and cmd.exe allow this many UTF-16 units, with the final NUL. */
const MAX_COMMAND_LINE = 32_767;
const MAX_BATCH_LINE = 8_191;

/** Files with other suffixes of PATHEXT need a program that their suffix is registered for. */
const RUNNABLE: readonly string[] = [".com", ".exe", ".bat", ".cmd"];
const BATCH: readonly string[] = [".bat", ".cmd"];

/**
 * The command as Windows can start it: CreateProcess finds only `.exe` files, so the program is searched along PATH and
 * PATHEXT here, and batch files, as npm installs them for every command, are started by cmd.exe. A program that is not
 * found is passed unchanged, so that its start fails as it would anywhere. Unlike cmd.exe, the working directory is not
 * searched, where a repository could place a program.
 */
export function resolveWindowsCommand(argv: readonly string[], context: WindowsContext): LaunchCommand {
  const [program = "", ...words] = argv;
  const path = findProgram(program, context);
  if (path === null || !BATCH.includes(suffixOf(path)))
    return { argv: checkLength([path ?? program, ...words], MAX_COMMAND_LINE), verbatim: false };
  requireDirectoryOfCmd(context.cwd);
  return { argv: checkLength(batchCommand(path, words, context.env), MAX_BATCH_LINE), verbatim: true };
}

/** The words that run a command line in a shell; see `resolveShellWords`. Default: cmd.exe. */
export function windowsShellWords(
  shell: string | undefined,
  command: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): readonly string[] {
  const program = shell ?? windowsVariable(env, "ComSpec") ?? cmdPath(env);
  if (isCmd(program)) return [program, "/d", "/s", "/c", command];
  const isPowerShell = /^(pwsh|powershell)(\.exe)?$/i.test(win32.basename(program));
  return [program, isPowerShell ? "-Command" : "-c", command];
}

/** The last word is a command line. cmd.exe gets it as it is, in quotes, of which it removes the outer two. */
export function resolveShellWords(words: readonly string[], context: WindowsContext): LaunchCommand {
  const [shell = "", ...options] = words;
  if (!isCmd(shell)) return resolveWindowsCommand(words, context);
  requireDirectoryOfCmd(context.cwd);
  if (/[\r\n]/.test(options.at(-1) ?? ""))
    throw new BadInput(
      "command",
      "cmd.exe executes only the first line of a command; join the lines with & or use a batch file. Nothing was started",
    );
  const argv = [findProgram(shell, context) ?? shell, ...options.slice(0, -1), `"${options.at(-1) ?? ""}"`];
  return { argv: checkLength(argv, MAX_BATCH_LINE), verbatim: true };
}

/** On a network share (`\\server\share`), cmd.exe runs in the Windows directory instead. */
function requireDirectoryOfCmd(cwd: string): void {
  if (!/^[\\/]{2}/.test(cwd)) return;
  throw new BadInput(
    "cwd",
    `cmd.exe, which runs batch files, cannot run in ${cwd}; use a path with a drive letter (net use maps a share to one). Nothing was started`,
  );
}

function isCmd(shell: string): boolean {
  return /^cmd(\.exe)?$/i.test(win32.basename(shell));
}

/** The value of a variable, whose name has no case on Windows. */
function windowsVariable(env: Readonly<Record<string, string | undefined>>, name: string): string | null {
  const upper = name.toUpperCase();
  return Object.entries(env).find(([each]) => each.toUpperCase() === upper)?.[1] ?? null;
}

function cmdPath(env: Readonly<Record<string, string | undefined>>): string {
  return win32.join(windowsVariable(env, "SystemRoot") ?? String.raw`C:\Windows`, "System32", "cmd.exe");
}

/** The file of a program; null: there is none with a suffix that can be started. */
export function findProgram(
  program: string,
  { env, cwd, isFile = isProgramFile }: WindowsContext,
): string | null {
  if (program === "") return null;
  const hasPath = /[\\/:]/.test(program);
  const directories = hasPath ? [""] : (windowsVariable(env, "PATH") ?? "").split(";");
  const suffixes = suffixesOf(env);
  // npm installs `npx.cmd` beside `npx`, a script that only a POSIX shell can run.
  const names = [
    ...(suffixes.includes(suffixOf(program)) ? [program] : []),
    ...suffixes.map((suffix) => program + suffix),
  ];
  for (const directory of directories.map((each) => each.replaceAll('"', ""))) {
    if (!hasPath && !win32.isAbsolute(directory)) continue;
    const found = names.map((name) => win32.resolve(cwd, directory, name)).find(isFile);
    if (found !== undefined) return found;
  }
  return null;
}

function suffixesOf(env: WindowsContext["env"]): readonly string[] {
  const listed = (windowsVariable(env, "PATHEXT") ?? "").toLowerCase().split(";");
  const runnable = listed.filter((suffix) => RUNNABLE.includes(suffix));
  return runnable.length === 0 ? RUNNABLE : runnable;
}

function suffixOf(path: string): string {
  return win32.extname(path).toLowerCase();
}

/**
 * True if the path can be a program. The Microsoft Store installs aliases of programs (`WindowsApps\python.exe`, in the PATH
 * of every user): links that only CreateProcess can follow, so that they cannot be examined. What does not exist, or is
 * in a directory that this user may not read, is skipped.
 */
function isProgramFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return isUnfollowableLink(path);
  }
}

function isUnfollowableLink(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === false;
  } catch {
    return false;
  }
}

/** `/e:on`: the escape of `%` needs command extensions. `/v:off`: `!` is an ordinary character. `/d`: no AutoRun. */
function batchCommand(path: string, words: readonly string[], env: WindowsContext["env"]): readonly string[] {
  const line = [`"${path.replaceAll("%", ESCAPED_PERCENT)}"`, ...words.map(quoteForBatch)].join(" ");
  return [cmdPath(env), "/e:on", "/v:off", "/d", "/s", "/c", `"${line}"`];
}

/** cmd.exe has no escape for `%`: `%cd:~,%` is a variable that expands to nothing, and keeps the `%` before it alone. */
const ESCAPED_PERCENT = "%%cd:~,%";

/**
 * Quotes a word for a batch file, which cmd.exe parses twice: on its command line, and where the batch file names its
 * arguments (`%*`). A caret would be lost after the first time; inside of quotes everything but `%` and `"` is ordinary
 * both times, and `""` keeps the quotes balanced. See CVE-2024-24576.
 */
export function quoteForBatch(word: string): string {
  if (/[\r\n]/.test(word))
    throw new BadInput(
      "command",
      "an argument of a batch file cannot contain a line break; nothing was started",
    );
  if (/^[\w#$*+\-./:?@\\]*[\w#$*+\-./:?@]$/.test(word)) return word;
  const escaped = word
    .replaceAll(/(\\*)"/g, '$1$1""')
    .replace(/\\+$/, (slashes) => slashes + slashes)
    .replaceAll("%", ESCAPED_PERCENT);
  return `"${escaped}"`;
}

/** Refuses what CreateProcess or cmd.exe would refuse, or cut. Two quotes and a space are counted for each word. */
function checkLength(argv: readonly string[], limit: number): readonly string[] {
  const length = argv.reduce((total, word) => total + word.length + 3, 0);
  if (length < limit) return argv;
  throw new BadInput(
    "command",
    `the command line has ${length} characters; the limit of the system is ${limit - 1}. Pass large data on stdin or in a file`,
  );
}
