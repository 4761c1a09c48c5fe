import { userInfo } from "node:os";
import { posix, win32 } from "node:path";
import type { GatewayService } from "./gateway-service.js";
import { LAUNCH_AGENT_LABEL, launchAgent } from "./launchd-agent.js";
import { scheduledTask, TASK_NAME } from "./windows-scheduled-task.js";
import { systemdUnit } from "./systemd-unit.js";

type Variables = Readonly<Record<string, string | undefined>>;

/** The service manager of a system: what describes the gateway to it, and how it learns about that. */
export interface ServiceManager {
  /** The file that describes the service. */
  readonly path: string;
  /** Other files that belong to it once it is enabled. */
  readonly links: readonly string[];
  readonly encoding: "utf8" | "utf16le";
  describe(service: GatewayService): string;
  /** Succeeds while a former service with this name is ending; it is awaited before the last command of `register`. */
  readonly isThere?: readonly string[];
  /** Commands after the file was written, and before it is removed. The first of several may fail. */
  readonly register: readonly (readonly string[])[];
  readonly unregister: readonly (readonly string[])[];
  /** Hints for the user after `register` and after `unregister`. */
  readonly installed: readonly string[];
  readonly removed: readonly string[];
}

/** The manager of this user's services; null: this system has none that is supported. */
export function serviceManager(
  platform: NodeJS.Platform,
  env: Variables,
  home: string,
): ServiceManager | null {
  if (platform === "linux") return systemd(env);
  if (platform === "darwin") return launchd(env, userInfo().uid);
  return platform === "win32" ? taskScheduler(env, home) : null;
}

/** Starts nothing: the user decides that. */
function systemd(env: Variables): ServiceManager {
  const directory = posix.join(
    env["XDG_CONFIG_HOME"] || posix.join(env["HOME"] ?? "", ".config"),
    "systemd/user",
  );
  return {
    path: posix.join(directory, "holdfast.service"),
    links: [posix.join(directory, "default.target.wants/holdfast.service")],
    encoding: "utf8",
    describe: systemdUnit,
    register: [],
    unregister: [],
    installed: [
      "start it: systemctl --user daemon-reload && systemctl --user enable --now holdfast",
      "a user's services end with the last login unless lingering is on: loginctl enable-linger",
    ],
    removed: ["a running gateway continues: systemctl --user stop holdfast; systemctl --user daemon-reload"],
  };
}

function launchd(env: Variables, uid: number): ServiceManager {
  const path = posix.join(env["HOME"] ?? "", "Library/LaunchAgents", `${LAUNCH_AGENT_LABEL}.plist`);
  const bootout = ["launchctl", "bootout", `gui/${uid}/${LAUNCH_AGENT_LABEL}`];
  return {
    path,
    links: [],
    encoding: "utf8",
    describe: launchAgent,
    // bootout(1) may return before the service has ended, and bootstrap then fails.
    isThere: ["launchctl", "print", `gui/${uid}/${LAUNCH_AGENT_LABEL}`],
    register: [bootout, ["launchctl", "bootstrap", `gui/${uid}`, path]],
    unregister: [bootout],
    installed: ["the gateway runs now, and at each login"],
    removed: ["the gateway was stopped; its runs continue under their anchors"],
  };
}

function taskScheduler(env: Variables, home: string): ServiceManager {
  const path = win32.join(home, "gateway-task.xml");
  const user = `${env["USERDOMAIN"] ?? "."}\\${env["USERNAME"] ?? ""}`;
  return {
    path,
    links: [],
    encoding: "utf16le",
    describe: (service) => scheduledTask(service, user),
    register: [["schtasks", "/create", "/tn", TASK_NAME, "/xml", path, "/f"]],
    unregister: [["schtasks", "/delete", "/tn", TASK_NAME, "/f"]],
    installed: ["the gateway starts at the next logon; now: holdfast gateway start"],
    removed: ["a running gateway continues: holdfast gateway stop"],
  };
}
