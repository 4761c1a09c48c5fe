import { readdirSync, readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { extname, join, relative, sep } from "node:path";
import { PACKAGE_ROOT } from "../../home/package.js";

/** The page as `npm run build` makes it. */
const PAGE_DIRECTORY = join(PACKAGE_ROOT, "dist/web");

/** Only the page's own files run, styles are files, and no other site may frame the page or get its address. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

export const SECURITY_HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "cache-control": "no-store",
};

export function setSecurityHeaders(response: ServerResponse): void {
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

interface PageFile {
  readonly type: string;
  readonly content: Buffer;
}

/** The files of the page by their path, kept in memory: an upgrade may replace them while the page is open. */
export class Page {
  readonly #files = new Map<string, PageFile>();

  constructor(directory: string = PAGE_DIRECTORY) {
    for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      const type = TYPES[extname(entry.name)];
      if (!entry.isFile() || type === undefined) continue;
      const name = `/${relative(directory, path).split(sep).join("/")}`;
      this.#files.set(name, { type, content: readFileSync(path) });
    }
  }

  /** False: the path belongs to the API. All other paths that are no file are views, which the page itself shows. */
  send(path: string, method: string, response: ServerResponse): boolean {
    const isFile = path.startsWith("/assets/");
    const file =
      this.#files.get(path) ?? (isFile || isApi(path) ? undefined : this.#files.get("/index.html"));
    if (file === undefined) return false;
    // The names of these files change with their content.
    if (isFile) response.setHeader("cache-control", "private, max-age=31536000, immutable");
    response.writeHead(200, { "content-type": file.type, "content-length": file.content.length });
    response.end(method === "HEAD" ? undefined : file.content);
    return true;
  }
}

function isApi(path: string): boolean {
  return path.startsWith("/v1/") || ["/metrics", "/mcp", "/openapi.json"].includes(path);
}
