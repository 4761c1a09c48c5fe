import { isAbsolute } from "node:path";
import type { ClientCapabilities } from "@agentclientprotocol/sdk";
import { z } from "zod";
import type { AcpUpdate, NewAcpUpdate } from "../model/acp.js";
import { CLIENT_FILE_ACCESS } from "../model/enums.js";

const root = z
  .string()
  .max(4_096)
  .refine((path) => isAbsolute(path) && !path.includes("\0"), "must be an absolute path");

/** What an agent may use of ours: in the catalogue, the config and the API alike. */
export const clientAccessSchema = z.strictObject({
  files: z.enum(CLIENT_FILE_ACCESS).optional(),
  /** Beside the session's own directory. */
  roots: z.array(root).max(64).optional(),
  terminals: z.boolean().optional(),
});

export type RequestedClientAccess = z.output<typeof clientAccessSchema>;

export interface ClientAccess {
  readonly files: (typeof CLIENT_FILE_ACCESS)[number];
  readonly roots: readonly string[];
  readonly terminals: boolean;
}

/** Agents behave worse where something is offered: nothing is unless somebody has said so. */
export const NO_CLIENT_ACCESS: ClientAccess = { files: "none", roots: [], terminals: false };

/** The later one wins, field by field. */
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
  };
}

/** A session's offer is the first thing that is said in it. One that begins otherwise offers nothing. */
export function clientAccessUpdate(access: ClientAccess, at: number): NewAcpUpdate {
  return { turnId: null, at, type: "client", data: { offer: access } };
}

export function recordedClientAccess([first]: readonly AcpUpdate[]): ClientAccess {
  if (first?.type !== "client") return NO_CLIENT_ACCESS;
  return (first.data as { readonly offer?: ClientAccess }).offer ?? NO_CLIENT_ACCESS;
}
