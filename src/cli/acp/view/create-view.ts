import { notice } from "../../print/errors-and-notices.js";
import { printOrThrow, toJson } from "../../print/write-output.js";
import { TextView, type TextViewOptions } from "./text-view.js";
import {
  type AcpView,
  type Notice,
  type OutputFormat,
  permissionLine,
  type PermissionRequest,
  type TurnChange,
  turnEndNotice,
} from "./notice-texts.js";

export function createView(format: OutputFormat | "record", options: TextViewOptions): AcpView {
  switch (format) {
    case "text":
      return new TextView(options);
    case "json":
      return { ...silentView, show: (update) => printOrThrow(toJson(update)) };
    case "quiet":
      return {
        ...silentView,
        turnEnded: ({ text }) => printOrThrow(text === "" ? "" : `${text.trimEnd()}\n`),
      };
    case "record":
      return silentView;
  }
}

const silentView: AcpView = {
  show: ({ type, data }) => {
    const remark = type === "turn" ? endNotice(data as TurnChange) : null;
    if (remark !== null) notice(...remark);
    // Otherwise the command would wait without saying why.
    const question = type === "permission" ? (data as PermissionRequest) : null;
    if (question?.decision === null) notice(permissionLine(question, Date.now()) ?? "", "yellow");
  },
  turnEnded: () => undefined,
  notice: (remark) => notice(...remark),
  flush: () => undefined,
};

function endNotice({ state, outcome = null, stopReason = null, problem = null }: TurnChange): Notice | null {
  return state === "ended" ? turnEndNotice({ outcome, stopReason, problem }) : null;
}
