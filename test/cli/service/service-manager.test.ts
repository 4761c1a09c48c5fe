import { describe, expect, test } from "vitest";
import { launchAgent } from "../../../src/cli/service/launchd-agent.js";
import { scheduledTask } from "../../../src/cli/service/windows-scheduled-task.js";
import { serviceManager } from "../../../src/cli/service/service-manager.js";

const home = String.raw`C:\Users\ada & co\holdfast`;
const onWindows = {
  node: String.raw`C:\Program Files\nodejs\node.exe`,
  main: String.raw`C:\50%\main.js`,
  environment: { HOLDFAST_HOME: home },
};

describe("a scheduled task", () => {
  const task = scheduledTask(onWindows, String.raw`PC\ada`);

  test("starts the gateway at the logon of its user, without more rights", () => {
    for (const line of [
      String.raw`<UserId>PC\ada</UserId>`,
      "<LogonType>InteractiveToken</LogonType>",
      "<RunLevel>LeastPrivilege</RunLevel>",
      "<StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>",
      // The default is that of background work, which runs would inherit.
      "<Priority>5</Priority>",
      "<Command>cmd.exe</Command>",
    ])
      expect(task).toContain(line);
    expect(task).toMatch(/<LogonTrigger>/);
  });

  test("sets the variables of the gateway, quoted for cmd.exe and for XML", () => {
    const [, text = ""] = /<Arguments>(.*)<\/Arguments>/.exec(task) ?? [];
    expect(text).toContain("&amp;&amp;");
    expect(text.replaceAll("&quot;", '"').replaceAll("&amp;", "&")).toBe(
      String.raw`/d /e:on /v:off /s /c "set "HOLDFAST_HOME=${home}"&& "C:\Program Files\nodejs\node.exe" "C:\50%%cd:~,%\main.js" gateway start"`,
    );
  });

  test("is created and deleted by schtasks", () => {
    const manager = serviceManager("win32", { USERDOMAIN: "PC", USERNAME: "ada" }, home);
    expect(manager?.register).toEqual([
      ["schtasks", "/create", "/tn", "Holdfast gateway", "/xml", `${home}\\gateway-task.xml`, "/f"],
    ]);
    expect(manager?.unregister).toEqual([["schtasks", "/delete", "/tn", "Holdfast gateway", "/f"]]);
    expect(manager?.describe(onWindows)).toBe(task);
  });
});

describe("a LaunchAgent", () => {
  test("keeps a failed gateway running and leaves its runs alone", () => {
    const text = launchAgent({
      node: "/n/node",
      main: "/m/a&b.js",
      environment: { HOLDFAST_HOME: "/h <x>" },
    });
    expect(text).toContain("<key>HOLDFAST_HOME</key>\n    <string>/h &lt;x&gt;</string>");
    expect(text).toMatch(
      /<array>\s*<string>\/n\/node<\/string>\s*<string>\/m\/a&amp;b\.js<\/string>\s*<string>gateway<\/string>\s*<string>run<\/string>/,
    );
    expect(text).toMatch(/<key>ProcessType<\/key>\s*<string>Interactive<\/string>/);
    expect(text).toMatch(/<key>AbandonProcessGroup<\/key>\s*<true\/>/);
    expect(text).toMatch(/<key>KeepAlive<\/key>\s*<dict>\s*<key>SuccessfulExit<\/key>\s*<false\/>/);
  });

  test("is loaded by launchctl from the directory of the user", () => {
    const manager = serviceManager("darwin", { HOME: "/Users/ada" }, "/h");
    expect(manager?.path).toBe("/Users/ada/Library/LaunchAgents/dev.holdfast.gateway.plist");
    expect(manager?.register.at(-1)).toEqual([
      "launchctl",
      "bootstrap",
      expect.stringMatching(/^gui\/\d+$/),
      manager?.path,
    ]);
    expect(manager?.isThere?.slice(0, 2)).toEqual(["launchctl", "print"]);
    expect(manager?.unregister).toEqual([
      ["launchctl", "bootout", expect.stringMatching(/^gui\/\d+\/dev\.holdfast\.gateway$/)],
    ]);
  });
});

test("a system without a known service manager has none", () => {
  expect(serviceManager("freebsd", {}, "/h")).toBeNull();
});
