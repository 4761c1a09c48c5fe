import { isIPv4 } from "node:net";
import { hostname } from "node:os";
import type { PeerAddress } from "../model/gateway.js";

/** Parses `10.0.0.7:7444`, `[fd00::7]:7444` or `name:7444`. Null: not such an address. */
export function parsePeerAddress(text: string): PeerAddress | null {
  const [, v6, name, digits = ""] = /^(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  return host === undefined || port > 65_535 ? null : { host, port };
}

/** The address that peers connect to. A gateway that listens on every address advertises its host name. */
export function advertisedAddress(bound: PeerAddress, advertise: PeerAddress | null): PeerAddress {
  if (advertise !== null) return advertise.port === 0 ? { ...advertise, port: bound.port } : advertise;
  return ["0.0.0.0", "::"].includes(bound.host) ? { ...bound, host: hostname() } : bound;
}

export interface LoopbackAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** Parses `127.0.0.1:7433`, `[::1]:7433` or `localhost:7433`. Null: not an address, or not of the loopback interface. */
export function parseLoopback(text: string): LoopbackAddress | null {
  const [, v6, name = "", digits = ""] = /^(?:\[(::1)\]|([\w.]+)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  const host = v6 ?? (name === "localhost" ? "127.0.0.1" : name);
  const local = host === "::1" || (isIPv4(host) && host.startsWith("127."));
  return local && digits !== "" && port <= 65_535 ? { host, port } : null;
}
