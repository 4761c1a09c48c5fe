import { basename } from "node:path";
import type { ContentBlock, PromptCapabilities } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { PromptContent } from "../../model/acp/session-and-turn.js";
import { isObject } from "../wire/message.js";

/**
 * The parts of a prompt in a form that the agent supports. A resource becomes a link if the agent takes no embedded ones:
 * every agent supports links. Throws if the agent does not support a part. `capabilities`: the answer to `initialize`.
 */
export function supportedContent(
  content: readonly PromptContent[] | undefined,
  capabilities: unknown,
): readonly PromptContent[] {
  if (content === undefined) return [];
  const bytes = content.reduce((sum, part) => sum + (sizeOf(part) ?? 0), 0);
  if (bytes > defaults.acpContentBytes)
    throw new BadInput(
      "content",
      `the files of a prompt have at most ${defaults.acpContentBytes} bytes as they are sent, and these have ${bytes}; nothing was sent. Send links instead`,
    );
  const supported = promptCapabilitiesOf(capabilities);
  return content.map((part) => {
    if ((part.type === "image" || part.type === "audio") && supported[part.type] !== true)
      throw new BadInput(
        "content",
        `the agent does not support ${part.type} in prompts; nothing was sent. A link (--link) reaches every agent`,
      );
    if (part.type !== "resource" || supported.embeddedContext === true) return part;
    const { uri, mimeType } = part.resource;
    return { type: "resource_link", uri, name: nameOf(uri), mimeType };
  });
}

function promptCapabilitiesOf(capabilities: unknown): PromptCapabilities {
  const agent = isObject(capabilities) ? capabilities["agentCapabilities"] : null;
  const prompt = isObject(agent) ? agent["promptCapabilities"] : null;
  return isObject(prompt) ? prompt : {};
}

/** Converts the parts to the types of the protocol's library. */
export function toContentBlocks(content: readonly PromptContent[] | null): ContentBlock[] {
  return (content ?? []).map((part) =>
    part.type === "resource" ? { ...part, resource: { ...part.resource } } : { ...part },
  ) as ContentBlock[];
}

/** A part of a prompt without its content. */
interface Attachment {
  readonly type: PromptContent["type"];
  readonly name: string;
  /** The size as it is sent; null: a link. */
  readonly bytes: number | null;
}

export function attachmentOf(part: PromptContent): Attachment {
  const bytes = sizeOf(part);
  if (part.type === "resource_link") return { type: part.type, name: part.name, bytes };
  const uri = part.type === "resource" ? part.resource.uri : part.uri;
  return { type: part.type, name: uri === undefined ? "" : nameOf(uri), bytes };
}

function sizeOf(part: PromptContent): number | null {
  if (part.type === "resource_link") return null;
  if (part.type !== "resource") return part.data.length;
  return "text" in part.resource ? Buffer.byteLength(part.resource.text) : part.resource.blob.length;
}

/** The last part of a path or URL. */
function nameOf(uri: string): string {
  try {
    return decodeURIComponent(basename(new URL(uri).pathname)) || uri;
  } catch {
    return uri;
  }
}
