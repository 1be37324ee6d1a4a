import * as vscode from 'vscode';
import { registerCommands } from './commands';
import { isKernelFile } from './documents';
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

  // Every Python file activates the extension; only a kernel starts the server, and one whose
  // import is still to be typed when it is typed.
  const kernels = new WeakSet<vscode.TextDocument>();
  const consider = (document: vscode.TextDocument): void => {
    if (!kernels.has(document) && isKernelFile(document)) {
      kernels.add(document);
      void current.start();
      current.refreshStatus();
    }
  };
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument(consider),
    vscode.workspace.onDidChangeTextDocument((event) => consider(event.document)),
    vscode.workspace.onDidSaveTextDocument(() => current.refreshStatus()),
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
