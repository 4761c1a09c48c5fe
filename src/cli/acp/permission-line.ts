import type { ResponseOf } from "../../api/contract.js";
import { formatDuration } from "../options/units.js";
import { toOneLine } from "./view/formats.js";

export type PermissionRequest = ResponseOf<"acpAnswer">["permission"];

/** What it is about. */
export function permissionSubject({ kind, title, toolCallId }: PermissionRequest): string {
  const words = title ?? toolCallId;
  return toOneLine(kind === null ? words : `${kind}: ${words}`);
}

export function expiryText({ expiresAt }: PermissionRequest, now: number): string {
  return `expires in ${formatDuration(Math.max(0, expiresAt - now))}`;
}

/** Null: what a rule lets through is not worth a line. */
export function permissionLine(permission: PermissionRequest, now: number): string | null {
  const { id, decision } = permission;
  const subject = permissionSubject(permission);
  if (decision === null)
    return `? ${subject} (${expiryText(permission, now)}): holdfast acp permissions show ${id}, then allow or deny`;
  const { verdict, actor } = decision;
  if (verdict === "allow" && actor.startsWith("rule ")) return null;
  return `${VERDICT_WORDS[verdict]}: ${subject} (${toOneLine(actor)})`;
}

const VERDICT_WORDS = {
  allow: "allowed",
  deny: "denied",
  cancelled: "not answered",
  expired: "expired",
} as const;
