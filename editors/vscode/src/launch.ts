// Finds the command that starts the language server.
import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import * as path from 'node:path';
import * as vscode from 'vscode';

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** Where the command was found, for the log and for messages. */
  readonly source: string;
}

/** The part of the Python extension's API that is used here. */
interface PythonExtension {
  readonly environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(environment: {
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
  };
}

const MODULE = 'accelopt_lsp';
/** Keeps the working directory off the module path: a folder there must not pass for ours. */
const SAFE_PATH = '-P';
const PROBE_TIMEOUT_MS = 15_000;
const PROBE = `import importlib.util, sys; sys.exit(importlib.util.find_spec('${MODULE}') is None)`;

/**
 * The server's command, first that applies: the setting `accelopt.server.command`, the setting
 * `accelopt.python`, the Python extension's interpreter, `accelopt-lsp` on the PATH, `python3`.
 *
 * A workspace that is not trusted may hold its own interpreter, so there the Python extension
 * is not asked; VS Code itself keeps such a workspace from changing the two settings.
 */
export async function findServer(log: vscode.LogOutputChannel): Promise<Launch> {
  const settings = vscode.workspace.getConfiguration('accelopt');
  const [program, ...args] = settings.get<string[]>('server.command', []);
  if (program !== undefined && program !== '') {
    return { command: expand(program), args, source: 'accelopt.server.command' };
  }

  const chosen = settings.get<string>('python', '').trim();
  if (chosen !== '') {
    const python = expand(chosen);
    if (await hasPackage(python, log)) {
      return fromPython(python, 'accelopt.python');
    }
    throw new Error(
      `The interpreter in the setting accelopt.python, ${python}, has no accelopt-lsp package.`,
    );
  }

  const active = vscode.workspace.isTrusted ? await activeInterpreter(log) : undefined;
  if (active !== undefined && (await hasPackage(active, log))) {
    return fromPython(active, 'the Python extension');
  }

  const onPath = await which('accelopt-lsp');
  if (onPath !== undefined) {
    return { command: onPath, args: [], source: 'the PATH' };
  }

  for (const name of ['python3', 'python']) {
    const python = await which(name);
    if (python !== undefined && (await hasPackage(python, log))) {
      return fromPython(python, `${name} on the PATH`);
    }
  }
  throw new Error(
    active === undefined
      ? 'AccelOpt needs its Python package accelopt-lsp, which was not found.'
      : `AccelOpt needs its Python package accelopt-lsp, which ${active} does not have.`,
  );
}

function fromPython(python: string, source: string): Launch {
  return { command: python, args: [SAFE_PATH, '-m', MODULE, 'serve'], source };
}

function expand(value: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? '';
  const home = process.env['HOME'] ?? process.env['USERPROFILE'] ?? '';
  return value.replaceAll('${workspaceFolder}', folder).replace(/^~(?=[/\\])/, home);
}

async function activeInterpreter(log: vscode.LogOutputChannel): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtension>('ms-python.python');
  if (extension === undefined) {
    return undefined;
  }
  try {
    const api = await extension.activate();
    const environment = api.environments.getActiveEnvironmentPath(
      vscode.workspace.workspaceFolders?.[0]?.uri,
    );
    const resolved = await api.environments.resolveEnvironment(environment);
    return resolved?.executable.uri?.fsPath;
  } catch (error) {
    log.warn(`The Python extension did not name an interpreter: ${String(error)}`);
    return undefined;
  }
}

function hasPackage(python: string, log: vscode.LogOutputChannel): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(python, [SAFE_PATH, '-c', PROBE], { timeout: PROBE_TIMEOUT_MS }, (error) => {
      log.debug(`${python}: ${error === null ? `has ${MODULE}` : `no ${MODULE} (${error.message})`}`);
      resolve(error === null);
    });
  });
}

async function which(name: string): Promise<string | undefined> {
  const extensions = process.platform === 'win32' ? ['.exe', '.cmd', ''] : [''];
  for (const folder of (process.env['PATH'] ?? '').split(path.delimiter)) {
    if (!path.isAbsolute(folder)) {
      continue;
    }
    for (const extension of extensions) {
      const file = path.join(folder, name + extension);
      try {
        await access(file, constants.X_OK);
        return file;
      } catch {
        continue;
      }
    }
  }
  return undefined;
}
