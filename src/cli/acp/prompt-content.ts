import { isUtf8 } from "node:buffer";
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { basename, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { RequestOf } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";

export interface ContentFlags {
  readonly promptFile?: string;
  readonly file?: readonly string[];
  readonly image?: readonly string[];
  readonly audio?: readonly string[];
  readonly link?: readonly string[];
}

type Content = NonNullable<RequestOf<"acpPrompt">["body"]["content"]>[number];

const MIME_TYPES: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".bmp": "image/bmp",
  ".svg": "image/svg+xml",
  ".wav": "audio/wav",
  ".mp3": "audio/mpeg",
  ".ogg": "audio/ogg",
  ".flac": "audio/flac",
  ".m4a": "audio/mp4",
  ".webm": "audio/webm",
  ".md": "text/markdown",
  ".html": "text/html",
  ".css": "text/css",
  ".csv": "text/csv",
  ".json": "application/json",
  ".pdf": "application/pdf",
};

/** The files, images and links that are sent with a prompt. `words`: the prompt as an argument. */
export function readPromptContent(words: string, flags: ContentFlags): Content[] {
  const { file = [], image = [], audio = [], link = [] } = flags;
  return [
    ...image.map((path) => readMedia("image", path)),
    ...audio.map((path) => readMedia("audio", path)),
    ...file.map(readResource),
    ...link.map(toLink),
    ...mentionedPaths(words).filter(isFile).map(linkToFile),
  ];
}

/** The words `@path` of a prompt, without punctuation at their end. */
export function mentionedPaths(words: string): string[] {
  const found = words.matchAll(/(?<=^|\s)@(?:"([^"\n]+)"|([^\s"]+))/g);
  const paths = [...found].map(([, quoted, word = ""]) => quoted ?? word.replace(/[,.;:!?)]+$/, ""));
  return [...new Set(paths.filter((path) => path !== ""))];
}

function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile();
}

function linkToFile(path: string): Content {
  return { type: "resource_link", uri: fileUri(path), name: basename(path) };
}

function toLink(uri: string): Content {
  if (!URL.canParse(uri)) {
    if (isFile(uri)) return linkToFile(uri);
    throw wrong("link", `${uri} is neither a URI nor a file that exists`);
  }
  return { type: "resource_link", uri, name: basename(new URL(uri).pathname) || uri };
}

function readMedia(type: "image" | "audio", path: string): Content {
  const mimeType = MIME_TYPES[extname(path).toLowerCase()];
  if (mimeType?.startsWith(`${type}/`) !== true)
    throw wrong(type, `${path} has no file name extension of a known ${type} format`);
  return { type, mimeType, data: read(path, type).toString("base64"), uri: fileUri(path) };
}

function readResource(path: string): Content {
  const bytes = read(path, "file");
  const uri = fileUri(path);
  const known = MIME_TYPES[extname(path).toLowerCase()];
  return isUtf8(bytes) && !bytes.includes(0)
    ? { type: "resource", resource: { uri, mimeType: known ?? "text/plain", text: bytes.toString() } }
    : {
        type: "resource",
        resource: { uri, mimeType: known ?? "application/octet-stream", blob: bytes.toString("base64") },
      };
}

export function readPromptFile(path: string): string {
  const bytes = read(path, "prompt-file");
  if (!isUtf8(bytes)) throw wrong("prompt-file", `${path} is not UTF-8 text; --file sends it as a file`);
  return bytes.toString();
}

function read(path: string, field: string): Buffer {
  try {
    const bytes = readAtMost(path, defaults.acpContentBytes + 1);
    if (bytes.length > defaults.acpContentBytes)
      throw wrong(field, `${path} is too large: at most ${defaults.acpContentBytes} bytes can be sent`);
    if (bytes.length === 0) throw wrong(field, `${path} is empty`);
    return bytes;
  } catch (error) {
    throw error instanceof BadInput ? error : wrong(field, `${path} cannot be read: ${errorMessage(error)}`);
  }
}

/** Pipes and devices have no size, and may never end. */
function readAtMost(path: string, limit: number): Buffer {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(limit);
    let length = 0;
    while (length < limit) {
      const count = readSync(file, bytes, length, limit - length, null);
      if (count === 0) break;
      length += count;
    }
    return bytes.subarray(0, length);
  } finally {
    closeSync(file);
  }
}

function fileUri(path: string): string {
  return pathToFileURL(resolve(path)).href;
}

function wrong(field: string, why: string): BadInput {
  return new BadInput(field, `${why}; nothing was sent`);
}
