import { isAbsolute } from "node:path";
import type { ClientCapabilities } from "@agentclientprotocol/sdk";
import { z } from "zod";
import { CLIENT_FILES, type AcpUpdate, type NewAcpUpdate } from "../../store/acp-record.js";

const root = z
  .string()
  .max(4_096)
  .refine((path) => isAbsolute(path) && !path.includes("\0"), "must be an absolute path");

/** What an agent may use of ours: in the catalogue, the config and the API alike. */
export const clientOfferSchema = z.strictObject({
  files: z.enum(CLIENT_FILES).optional(),
  /** Beside the session's own directory. */
  roots: z.array(root).max(64).optional(),
  terminals: z.boolean().optional(),
});

export type AskedOffer = z.output<typeof clientOfferSchema>;

export interface ClientOffer {
  readonly files: (typeof CLIENT_FILES)[number];
  readonly roots: readonly string[];
  readonly terminals: boolean;
}

/** Agents behave worse where something is offered: nothing is unless somebody has said so. */
export const NOTHING_OFFERED: ClientOffer = { files: "none", roots: [], terminals: false };

/** The later one wins, field by field. */
export function offerFrom(...asked: readonly (AskedOffer | undefined)[]): ClientOffer {
  let offer = NOTHING_OFFERED;
  for (const { files, roots, terminals } of asked.filter((each) => each !== undefined))
    offer = {
      files: files ?? offer.files,
      roots: roots ?? offer.roots,
      terminals: terminals ?? offer.terminals,
    };
  return offer;
}

export function offersAnything({ files, terminals }: ClientOffer): boolean {
  return files !== "none" || terminals;
}

export function capabilitiesOf({ files, terminals }: ClientOffer): ClientCapabilities {
  return {
    fs: { readTextFile: files !== "none", writeTextFile: files === "read-write" },
    terminal: terminals,
  };
}

/** A session's offer is the first thing that is said in it. One that begins otherwise offers nothing. */
export function offerNews(offer: ClientOffer, at: number): NewAcpUpdate {
  return { turnId: null, at, type: "client", data: { offer } };
}

export function offerOf([first]: readonly AcpUpdate[]): ClientOffer {
  if (first?.type !== "client") return NOTHING_OFFERED;
  return (first.data as { readonly offer?: ClientOffer }).offer ?? NOTHING_OFFERED;
}
