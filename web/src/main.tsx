import { render } from "preact";
import { App } from "./app/app.js";
import { logIn } from "./app/login.js";
import { applyTheme } from "./app/theme.js";

applyTheme();
void logIn();
const root = document.querySelector("#app");
if (root !== null) render(<App />, root);
