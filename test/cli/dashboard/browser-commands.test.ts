import { expect, test } from "vitest";
import { browserCommands, whyNoScreen } from "../../../src/cli/dashboard/open-browser.js";

const FILE = "file:///home/me/link.html";

test.each([
  ["linux", undefined, [["xdg-open", FILE]]],
  ["linux", "", [["xdg-open", FILE]]],
  ["darwin", undefined, [["open", FILE]]],
  ["win32", "C:\\firefox.exe", [["rundll32", "url.dll,FileProtocolHandler", FILE]]],
  ["linux", "firefox --new-window", [["firefox", "--new-window", FILE]]],
  ["darwin", "'/opt/my browser' --app=%s -q", [["/opt/my browser", `--app=${FILE}`, "-q"]]],
  [
    "linux",
    "chromium --incognito %s:lynx",
    [
      ["chromium", "--incognito", FILE],
      ["lynx", FILE],
    ],
  ],
  ["linux", ":w3m", [["w3m", FILE]]],
] as const)("on %s with BROWSER=%s the commands are known", (platform, browser, expected) => {
  const env = browser === undefined ? {} : { BROWSER: browser };
  expect(browserCommands(platform, env, FILE)).toEqual(expected);
});

test.each([
  ["linux", {}, "no-display"],
  ["linux", { DISPLAY: ":0" }, null],
  ["linux", { WAYLAND_DISPLAY: "wayland-0" }, null],
  ["linux", { BROWSER: "w3m" }, null],
  ["linux", { SSH_CONNECTION: "1.2.3.4 5 6.7.8.9 22" }, "remote"],
  ["linux", { SSH_CONNECTION: "1.2.3.4 5 6.7.8.9 22", DISPLAY: "localhost:10.0" }, null],
  ["darwin", {}, null],
  ["darwin", { SSH_TTY: "/dev/ttys001" }, "remote"],
  ["win32", {}, null],
] as const)("on %s with %j it is known whether a browser can be opened", (platform, env, expected) => {
  expect(whyNoScreen(platform, env)).toBe(expected);
});
