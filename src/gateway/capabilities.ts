import { arch, platform } from "node:process";
import { findAnchorBinary } from "../anchor/binary/find.js";
import { probeCgroup } from "../anchor/inspect/cgroup-probe.js";
import { probeLimits } from "../anchor/look-at-limits.js";
import { PROTOCOL } from "../anchor/protocol/messages.js";
import type { GatewayCapabilities } from "../model/gateway.js";

/** What runs can have here. What cannot be looked at is not offered. */
export async function detectCapabilities(): Promise<GatewayCapabilities> {
  const cgroup = await probeCgroup().catch(() => null);
  const usable = cgroup?.state === "usable";
  const places = usable ? await probeLimits(findAnchorBinary()).catch(() => []) : [];
  return {
    platform,
    arch,
    tier: usable ? "cgroup" : "subreaper",
    pty: true,
    limits: places.filter(({ how }) => how === "v1" || how === "v2").map(({ controller }) => controller),
    anchorProtocol: PROTOCOL,
  };
}
