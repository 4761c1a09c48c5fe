import { defaults } from "../../defaults.js";
import { firstChars } from "../../text/truncate.js";
import type { NewAcpUpdate } from "../../model/acp/acp.js";
import { isObject } from "../wire/message.js";

/** The answer to `elicitation/create`: Holdfast shows no forms, and an agent that gets no answer would wait. */
export const DECLINED_ELICITATION = { action: "decline" } as const;

/** The update that contains the declined question. */
export function elicitationUpdate(params: unknown, turnId: string | null, at: number): NewAcpUpdate {
  const { message, mode, url } = isObject(params) ? params : {};
  const data = {
    message: typeof message === "string" ? firstChars(message, defaults.acpAskedChars) : "",
    mode: typeof mode === "string" ? firstChars(mode, defaults.titleChars) : null,
    url: typeof url === "string" ? firstChars(url, defaults.titleChars) : null,
    ...DECLINED_ELICITATION,
  };
  return { turnId, at, type: "elicitation", data };
}
