/**
 * Variables that make a dynamic loader or an interpreter run code which the command line does not show.
 * Whoever may set them on a run owns that run, whatever its argv says.
 *
 * Not here: variables that name a program to be started in plain sight of the user of that program
 * (EDITOR, PAGER, GIT_SSH_COMMAND, CC), and PATH. They are how such programs are meant to be configured.
 */
const INJECTION_NAMES: ReadonlySet<string> = new Set([
  // Loaders and what the C library loads
  "GCONV_PATH",
  "GLIBC_TUNABLES",
  "LOCPATH",
  "NLSPATH",
  "LIBPATH",
  "SHLIB_PATH",
  "OPENSSL_CONF",
  "OPENSSL_ENGINES",
  "OPENSSL_MODULES",
  // Shells
  "BASH_ENV",
  "ENV",
  "IFS",
  "PS4",
  "SHELLOPTS",
  "BASHOPTS",
  "PROMPT_COMMAND",
  "ZDOTDIR",
  "FPATH",
  // Node and its relatives
  "NODE_OPTIONS",
  "NODE_PATH",
  "NODE_REPL_EXTERNAL_MODULE",
  "BUN_OPTIONS",
  "NPM_CONFIG_NODE_OPTIONS",
  "NPM_CONFIG_SCRIPT_SHELL",
  // Python
  "PYTHONPATH",
  "PYTHONHOME",
  "PYTHONSTARTUP",
  "PYTHONINSPECT",
  "PYTHONBREAKPOINT",
  "PYTHONUSERBASE",
  "PYTHONEXECUTABLE",
  "PYTHONPLATLIBDIR",
  // Perl, Ruby, PHP, Tcl, R
  "PERL5LIB",
  "PERL5OPT",
  "PERL5DB",
  "PERLLIB",
  "RUBYOPT",
  "RUBYLIB",
  "PHPRC",
  "PHP_INI_SCAN_DIR",
  "TCLLIBPATH",
  "R_PROFILE",
  "R_PROFILE_USER",
  // Java, .NET, Erlang
  "JAVA_TOOL_OPTIONS",
  "_JAVA_OPTIONS",
  "JDK_JAVA_OPTIONS",
  "CLASSPATH",
  "DOTNET_STARTUP_HOOKS",
  "DOTNET_ADDITIONAL_DEPS",
  "ERL_LIBS",
]);

const INJECTION_PREFIXES: readonly string[] = [
  "LD_",
  "DYLD_",
  "_RLD",
  // Exported shell functions: their value is code.
  "BASH_FUNC_",
  // LUA_INIT_5_4 and the like.
  "LUA_INIT",
  "LUA_PATH",
  "LUA_CPATH",
  "CORECLR_PROFILER",
  "COR_PROFILER",
  "ERL_FLAGS",
  "ERL_AFLAGS",
  "ERL_ZFLAGS",
];

export function isInjectionVariable(name: string): boolean {
  // npm reads its own variables in any case, and Windows all of them.
  const upper = name.toUpperCase();
  return INJECTION_NAMES.has(upper) || INJECTION_PREFIXES.some((prefix) => upper.startsWith(prefix));
}
