import { createHash } from "node:crypto";
import { win32 } from "node:path";

/**
 * The address to listen on, and to connect to, for the socket file `path`. Windows has named pipes instead of socket
 * files: the name is derived from the path, and a file at the path marks that the pipe exists. The anchor derives
 * the same name, so only ASCII letters are lower-cased: other letters would depend on a table of the system.
 */
export function socketAddress(path: string, platform: NodeJS.Platform = process.platform): string {
  if (platform !== "win32") return path;
  const name = win32.resolve(path).replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return `\\\\.\\pipe\\holdfast-${createHash("sha256").update(name).digest("hex").slice(0, 32)}`;
}
