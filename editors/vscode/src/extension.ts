import * as vscode from 'vscode';
import { registerCommands } from './commands';
import { isKernelFile } from './kernels';
import { ModelKeys } from './models';
import { Session } from './session';

let session: Session | undefined;

/** Settings that only take effect when the server starts. */
const LAUNCH_SETTINGS = [
  'accelopt.server.command',
  'accelopt.python',
  'accelopt.trace.server',
  'accelopt.llm.baseUrl',
];

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel('AccelOpt', { log: true });
  const keys = new ModelKeys(context.secrets);
  const current = new Session(log, context.extension, () => keys.environment());
  session = current;
  context.subscriptions.push(log, current, ...registerCommands(current, keys));

  // Every Python file activates the extension; only a kernel starts the server.
  const consider = (document: vscode.TextDocument | undefined): void => {
    if (isKernelFile(document)) {
      void current.start();
    }
  };
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument(consider),
    vscode.workspace.onDidSaveTextDocument((document) => {
      consider(document);
      current.refreshStatus();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      if (current.running !== undefined) {
        void current.restart();
      }
    }),
    // A server has its key from its start.
    context.secrets.onDidChange(() => {
      if (current.running !== undefined) {
        void current.restart();
      }
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (LAUNCH_SETTINGS.some((name) => event.affectsConfiguration(name))) {
        void current.restartIfWanted();
      }
    }),
  );
  vscode.workspace.textDocuments.forEach(consider);
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}
