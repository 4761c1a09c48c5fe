/** The errors of the public API. */
export * from "./errors/acp.js";
export * from "./errors/base.js";
export {
  type FarGateway,
  GatewayNotProven,
  GatewaySilent,
  GatewayUnreachable,
  InsideRun,
  type PeerFailure,
  PeerUnreachable,
} from "./errors/gateway.js";
export * from "./errors/request.js";
export * from "./errors/run.js";
export * from "./errors/session.js";
export * from "./errors/state.js";
