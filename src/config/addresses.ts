import { hostname } from "node:os";
import type { PeerAddress } from "../model/gateway.js";

/** `10.0.0.7:7444`, `[fd00::7]:7444` or `name:7444`. Null: it is none. */
export function parsePeerAddress(text: string): PeerAddress | null {
  const [, v6, name, digits = ""] = /^(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  return host === undefined || port > 65_535 ? null : { host, port };
}

/** What others are told. Who listens on every address has none to tell: then the host's name has to do. */
export function advertisedAddress(bound: PeerAddress, advertise: PeerAddress | null): PeerAddress {
  if (advertise !== null) return advertise.port === 0 ? { ...advertise, port: bound.port } : advertise;
  return ["0.0.0.0", "::"].includes(bound.host) ? { ...bound, host: hostname() } : bound;
}
