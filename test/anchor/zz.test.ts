import { test } from "vitest";
import { encodeMessage } from "../../src/anchor/message.js";
import { RawLauncher } from "./raw-launcher.js";
import { readdirSync, readFileSync } from "node:fs";
test("x", async () => {
  const launcher = await RawLauncher.start();
  const owners = await Promise.all([launcher.knock(), launcher.knock()]);
  const frame = launcher.startFrame("run_a", "exit 6");
  for (const owner of owners) owner.send(frame, encodeMessage("go", {}));
  await new Promise(r => setTimeout(r, 1500));
  for (const owner of owners) console.log(owner.isOpen, JSON.stringify(owner.all).slice(0, 1500));
  const kids = readFileSync(`/proc/${launcher.pid}/task/${launcher.pid}/children`, "utf8");
  console.log("children", kids);
  for (const k of kids.trim().split(" ")) if (k) console.log(k, readFileSync(`/proc/${k}/cmdline`,"utf8"), readFileSync(`/proc/${k}/task/${k}/children`,"utf8"), readFileSync(`/proc/${k}/wchan`,"utf8"));
  console.log(readdirSync(launcher.runDirectory("run_a")));
});
