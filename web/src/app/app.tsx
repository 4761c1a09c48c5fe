import { connection } from "../live/connection.js";
import { LoggedOut } from "./logged-out.js";
import { Shell } from "./shell.js";

export function App() {
  return connection.value === "logged-out" ? <LoggedOut /> : <Shell />;
}
