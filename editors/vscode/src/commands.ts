// The palette's commands. What they do is asked of the server, which works for any editor.
import * as vscode from 'vscode';
import {
  CodeActionKind,
  CodeActionRequest,
  ExecuteCommandRequest,
  type ExecuteCommandParams,
  type LanguageClient,
} from 'vscode-languageclient/node';
import { isKernelFile } from './documents';
import type { ModelKeys } from './models';
import type { Session } from './session';

/** The server's commands, each called with a document's URI and a kernel's name. */
const SERVER = {
  optimize: 'accelopt.optimizeKernel',
  profile: 'accelopt.profileKernel',
  timeline: 'accelopt.showTimeline',
  explain: 'accelopt.explainKernel',
  switchTarget: 'accelopt.switchTarget',
  setArguments: 'accelopt.setArguments',
} as const;

interface Choice extends vscode.QuickPickItem {
  readonly command: string;
}

export function registerCommands(session: Session, keys: ModelKeys): vscode.Disposable[] {
  const register = vscode.commands.registerCommand;
  return [
    register('accelopt.editor.optimize', () => atCursor(session, SERVER.optimize)),
    register('accelopt.editor.profile', () => atCursor(session, SERVER.profile)),
    register('accelopt.editor.timeline', () => atCursor(session, SERVER.timeline)),
    register('accelopt.editor.explain', () => atCursor(session, SERVER.explain)),
    register('accelopt.editor.switchTarget', () => atCursor(session, SERVER.switchTarget)),
    register('accelopt.editor.setArguments', () => atCursor(session, SERVER.setArguments)),
    register('accelopt.setModelKey', () => keys.set()),
    register('accelopt.forgetModelKey', () => keys.forget()),
    register('accelopt.cancelJob', () => session.jobs.cancelOne()),
    register('accelopt.restartServer', () => session.restart()),
    register('accelopt.showOutput', () => session.log.show()),
    register('accelopt.applyPreview', () => session.preview.answer(true)),
    register('accelopt.discardPreview', () => session.preview.answer(false)),
    register('accelopt.showMenu', () => showMenu(session)),
  ];
}

/** Run a command of the server on the kernel at the cursor. */
async function atCursor(session: Session, command: string): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined || !isKernelFile(editor.document)) {
    void vscode.window.showInformationMessage('AccelOpt: open a file with an NKI kernel first.');
    return;
  }
  await session.start();
  const client = session.running;
  if (client === undefined) {
    void vscode.window.showWarningMessage('AccelOpt: the language server is not running.');
    return;
  }
  const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
  try {
    const parameters: ExecuteCommandParams = {
      command,
      arguments: (await kernelAt(client, uri, editor.selection.active.line)) ?? [uri],
    };
    await client.sendRequest(ExecuteCommandRequest.type, parameters);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    session.log.error(`${command}: ${reason}`);
    void vscode.window.showErrorMessage(`AccelOpt: ${reason}`);
  }
}

/**
 * Document and name of the kernel at a line: what the server's own code actions there are about.
 * Without one the server takes the file's only kernel, or says which there are.
 */
async function kernelAt(
  client: LanguageClient,
  uri: string,
  line: number,
): Promise<[string, string] | undefined> {
  const position = { line, character: 0 };
  const actions = await client.sendRequest(CodeActionRequest.type, {
    textDocument: { uri },
    range: { start: position, end: position },
    context: { diagnostics: [], only: [CodeActionKind.RefactorRewrite] },
  });
  const names = new Set<string>(Object.values(SERVER));
  for (const action of actions ?? []) {
    const command = typeof action.command === 'string' ? undefined : action.command;
    const [document, name]: unknown[] = command?.arguments ?? [];
    if (command !== undefined && names.has(command.command)) {
      if (typeof document === 'string' && typeof name === 'string') {
        return [document, name];
      }
    }
  }
  return undefined;
}

async function showMenu(session: Session): Promise<void> {
  const choices: Choice[] = [];
  if (session.jobs.titles.length > 0) {
    choices.push({ label: '$(stop-circle) Cancel Job', command: 'accelopt.cancelJob' });
  }
  if (session.running !== undefined) {
    choices.push(
      { label: '$(rocket) Optimize Kernel', command: 'accelopt.editor.optimize' },
      { label: '$(dashboard) Profile Kernel', command: 'accelopt.editor.profile' },
      { label: '$(graph) Show Timeline', command: 'accelopt.editor.timeline' },
      { label: '$(question) Explain the Bottleneck', command: 'accelopt.editor.explain' },
      { label: '$(arrow-swap) Switch Target', command: 'accelopt.editor.switchTarget' },
      { label: '$(symbol-parameter) Set Arguments', command: 'accelopt.editor.setArguments' },
    );
  }
  choices.push(
    { label: '$(refresh) Restart Server', command: 'accelopt.restartServer' },
    { label: '$(output) Show Output', command: 'accelopt.showOutput' },
  );
  const picked = await vscode.window.showQuickPick(choices, { placeHolder: 'AccelOpt' });
  if (picked !== undefined) {
    await vscode.commands.executeCommand(picked.command);
  }
}
