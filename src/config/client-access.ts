import { isAbsolute } from "node:path";
import type { ClientCapabilities } from "@agentclientprotocol/sdk";
import { z } from "zod";
import type { AcpUpdate, NewAcpUpdate } from "../model/acp/session-and-turn.js";
import { CLIENT_FILE_ACCESS } from "../model/enums.js";

const root = z
  .string()
  .max(4_096)
  .refine((path) => isAbsolute(path) && !path.includes("\0"), "must be an absolute path");

/** The files and terminals that an agent may use through the gateway: in the catalogue, the configuration and the API. */
export const clientAccessSchema = z.strictObject({
  files: z.enum(CLIENT_FILE_ACCESS).optional(),
  /** In addition to the session's own directory. */
  roots: z.array(root).max(64).optional(),
  terminals: z.boolean().optional(),
});

export type RequestedClientAccess = z.output<typeof clientAccessSchema>;

export interface ClientAccess {
  readonly files: (typeof CLIENT_FILE_ACCESS)[number];
  readonly roots: readonly string[];
  readonly terminals: boolean;
}

/** Nothing by default: agents behave worse if something is offered. */
export const NO_CLIENT_ACCESS: ClientAccess = { files: "none", roots: [], terminals: false };

/** Merges field by field; the later one wins. */
export function resolveClientAccess(...asked: readonly (RequestedClientAccess | undefined)[]): ClientAccess {
  let access = NO_CLIENT_ACCESS;
  for (const { files, roots, terminals } of asked.filter((each) => each !== undefined))
    access = {
      files: files ?? access.files,
      roots: roots ?? access.roots,
      terminals: terminals ?? access.terminals,
    };
  return access;
}

export function grantsAnyAccess({ files, terminals }: ClientAccess): boolean {
  return files !== "none" || terminals;
}

export function toClientCapabilities({ files, terminals }: ClientAccess): ClientCapabilities {
  return {
    fs: { readTextFile: files !== "none", writeTextFile: files === "read-write" },
    terminal: terminals,
    session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
    elicitation: { form: {}, url: {} },
  };
}

/** The first update of a session records its client access. Without one there is none. */
export function clientAccessUpdate(access: ClientAccess, at: number): NewAcpUpdate {
  return { turnId: null, at, type: "client", data: { offer: access } };
}

export function recordedClientAccess([first]: readonly AcpUpdate[]): ClientAccess {
  if (first?.type !== "client") return NO_CLIENT_ACCESS;
  return (first.data as { readonly offer?: ClientAccess }).offer ?? NO_CLIENT_ACCESS;
}
