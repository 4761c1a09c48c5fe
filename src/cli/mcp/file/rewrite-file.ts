import { constants, existsSync } from "node:fs";
import { access, mkdir, open, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { BadInput } from "../../../errors.js";
import { errnoCode, errorMessage } from "../../../home/errno.js";
import { renameFile } from "../../../home/rename-file.js";
import { badFile, type ConfigDocument, type ConfigFormat } from "./config-document.js";

export interface LoadedFile {
  readonly document: ConfigDocument;
  /** U+FEFF, if the file begins with it. */
  readonly mark: string;
  readonly bytes: Buffer;
}

/** The file beside a configuration file that keeps it as it was before the last change. */
export function backupPath(path: string): string {
  return `${path}.holdfast-backup`;
}

/** Null: the file does not exist. Rejects, naming the line, if its client could not parse the file either. */
export async function loadFile(path: string, format: ConfigFormat): Promise<LoadedFile | null> {
  const bytes = await readBytes(path);
  if (bytes === null) return null;
  const whole = decode(path, bytes);
  const mark = whole.startsWith("\uFEFF") ? "\uFEFF" : "";
  const text = whole.slice(mark.length);
  return { document: await parseDocument(text, path, format), mark, bytes };
}

export async function parseDocument(
  text: string,
  path: string,
  format: ConfigFormat,
): Promise<ConfigDocument> {
  if (format === "toml") return (await import("./parse-toml.js")).parseTomlDocument(text, path);
  return (await import("./parse-json.js")).parseJsonDocument(text, path);
}

async function readBytes(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path);
  } catch (error) {
    // A path through a file: a project may have a file `.codex`.
    if (["ENOENT", "ENOTDIR"].includes(errnoCode(error) ?? "")) return null;
    throw new BadInput("file", `${path} cannot be read: ${errorMessage(error)}; nothing was changed`);
  }
}

function decode(path: string, bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw badFile(path, null, "the file is not UTF-8");
  }
}

/**
 * Replaces the text of a file atomically, and keeps its mode and owner. Of a symbolic link, the target is replaced. With
 * `backup`, the former file is kept beside the target. Returns the path that was written.
 */
export async function rewriteFile(
  path: string,
  { mark, bytes }: LoadedFile,
  text: string,
  { backup }: { readonly backup: boolean },
): Promise<string> {
  const target = await realpath(path);
  await access(target, constants.W_OK).catch((error: unknown) => {
    throw new BadInput("file", `${path} cannot be written: ${errorMessage(error)}; it was not changed`);
  });
  await refuseIfChanged(path, target, bytes);
  const hadBackup = existsSync(backupPath(target));
  try {
    if (backup) await replaceBytes(backupPath(target), bytes, target);
    await refuseIfChanged(path, target, bytes);
    await replaceBytes(target, Buffer.from(mark + text), target);
  } catch (error) {
    if (backup && !hadBackup) await rm(backupPath(target), { force: true });
    throw error;
  }
  return target;
}

/** Creates a file, and the directories above it. Rejects if the file exists. */
export async function createFile(
  path: string,
  text: string,
  { isPrivate }: { readonly isPrivate: boolean },
): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { flag: "wx", mode: isPrivate ? 0o600 : 0o666 });
  } catch (error) {
    throw new BadInput("file", `${path} cannot be made: ${errorMessage(error)}; nothing was changed`);
  }
}

/** Removes a file that has not been changed since it was read. */
export async function removeFile(path: string, { bytes }: LoadedFile): Promise<void> {
  const target = await realpath(path);
  await refuseIfChanged(path, target, bytes);
  await rm(target);
}

/** Clients write their own files, so a file may change after it was read. */
async function refuseIfChanged(path: string, target: string, bytes: Buffer): Promise<void> {
  if (!(await readFile(target)).equals(bytes))
    throw new BadInput(
      "file",
      `${path} was changed by another program meanwhile; it was not changed here. Try again`,
    );
}

/** Writes a new file with the mode and owner of `like`, and renames it to `path`. */
async function replaceBytes(path: string, bytes: Buffer, like: string): Promise<void> {
  const { mode, uid, gid } = await stat(like);
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await using file = await open(temporary, "wx", mode & 0o777);
    // Not subject to the umask.
    await file.chmod(mode & 0o7777);
    const made = await file.stat();
    if (made.uid !== uid || made.gid !== gid) await file.chown(uid, gid);
    await file.writeFile(bytes);
    await file.sync();
    await file.close();
    await renameFile(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw new BadInput("file", `${path} cannot be written: ${errorMessage(error)}; it was not changed`);
  }
}

/** Removes the backup if the file is equal to it again. */
export async function removeBackup(target: string): Promise<void> {
  const [now, before] = await Promise.all([readBytes(target), readBytes(backupPath(target))]);
  if (now !== null && before !== null && now.equals(before)) await rm(backupPath(target), { force: true });
}
