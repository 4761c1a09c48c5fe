import { arch, platform } from "node:process";
import { findAnchor } from "../anchor/find.js";
import { lookAtCgroup } from "../anchor/look-at-cgroup.js";
import { lookAtLimits } from "../anchor/look-at-limits.js";
import { PROTOCOL } from "../anchor/protocol.js";
import type { GatewayCapabilities } from "../store/gateway-record.js";

/** What runs can have here. What cannot be looked at is not offered. */
export async function capabilitiesHere(): Promise<GatewayCapabilities> {
  const cgroup = await lookAtCgroup().catch(() => null);
  const usable = cgroup?.state === "usable";
  const places = usable ? await lookAtLimits(findAnchor()).catch(() => []) : [];
  return {
    platform,
    arch,
    tier: usable ? "cgroup" : "subreaper",
    pty: true,
    limits: places.filter(({ how }) => how === "v1" || how === "v2").map(({ controller }) => controller),
    anchorProtocol: PROTOCOL,
  };
}
