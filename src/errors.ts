/** The errors of the public API. */
export { HoldfastError } from "./errors/base.js";
export * from "./errors/acp.js";
export * from "./errors/gateway.js";
export * from "./errors/request.js";
export * from "./errors/run.js";
export * from "./errors/session.js";
export * from "./errors/store-and-state-directory.js";
