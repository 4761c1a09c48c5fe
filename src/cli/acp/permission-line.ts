import type { AnswerOf } from "../../gateway/contract/contract.js";
import { formatDuration } from "../duration.js";
import { oneLine } from "./tool-line.js";

export type Permission = AnswerOf<"acpAnswer">["permission"];

/** What it is about. */
export function subjectOf({ kind, title, toolCallId }: Permission): string {
  const words = title ?? toolCallId;
  return oneLine(kind === null ? words : `${kind}: ${words}`);
}

export function expiryOf({ expiresAt }: Permission, now: number): string {
  return `expires in ${formatDuration(Math.max(0, expiresAt - now))}`;
}

/** Null: what a rule lets through is not worth a line. */
export function permissionLine(permission: Permission, now: number): string | null {
  const { id, decision } = permission;
  const subject = subjectOf(permission);
  if (decision === null)
    return `? ${subject} (${expiryOf(permission, now)}): holdfast acp permissions show ${id}, then allow or deny`;
  const { verdict, actor } = decision;
  if (verdict === "allow" && actor.startsWith("rule ")) return null;
  return `${WORDS[verdict]}: ${subject} (${oneLine(actor)})`;
}

const WORDS = { allow: "allowed", deny: "denied", cancelled: "not answered", expired: "expired" } as const;
