import { loginProblem } from "./login.js";

/** Shown without a valid login. The page cannot log in by itself: only the command line makes links. */
export function LoggedOut() {
  return (
    <main class="logged-out" id="content">
      <h1>Holdfast</h1>
      {loginProblem.value !== null && (
        <p role="alert" class="problem">
          {loginProblem.value}
        </p>
      )}
      <p>This page is not open. On the machine of the gateway, run:</p>
      <pre class="command">holdfast dashboard</pre>
      <p class="quiet">It prints a link that works once, and opens it in the browser.</p>
    </main>
  );
}
