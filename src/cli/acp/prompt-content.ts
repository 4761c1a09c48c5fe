import { isUtf8 } from "node:buffer";
import { existsSync, readFileSync, statSync } from "node:fs";
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
  return read(path, "prompt-file").toString();
}

function read(path: string, field: string): Buffer {
  try {
    const { size } = statSync(path);
    if (size > defaults.acpContentBytes)
      throw wrong(field, `${path} has ${size} bytes; at most ${defaults.acpContentBytes} can be sent`);
    const bytes = readFileSync(path);
    if (bytes.length === 0) throw wrong(field, `${path} is empty`);
    return bytes;
  } catch (error) {
    throw error instanceof BadInput ? error : wrong(field, `${path} cannot be read: ${errorMessage(error)}`);
  }
}

function fileUri(path: string): string {
  return pathToFileURL(resolve(path)).href;
}

function wrong(field: string, why: string): BadInput {
  return new BadInput(field, `${why}; nothing was sent`);
}
