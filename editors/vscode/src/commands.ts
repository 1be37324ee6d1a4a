// The palette's commands. What they do is asked of the server, which works for any editor.
import * as vscode from 'vscode';
import { isKernelFile } from './kernels';
import type { Session } from './session';

/** The server's commands, each called with one object: {uri, line}. */
const SERVER = {
  optimize: 'accelopt.optimize',
  profile: 'accelopt.profile',
  setArguments: 'accelopt.setArguments',
} as const;

interface Choice extends vscode.QuickPickItem {
  readonly command: string;
}

export function registerCommands(session: Session): vscode.Disposable[] {
  const register = vscode.commands.registerCommand;
  return [
    register('accelopt.optimizeKernel', () => atCursor(session, SERVER.optimize)),
    register('accelopt.profileKernel', () => atCursor(session, SERVER.profile)),
    register('accelopt.setKernelArguments', () => atCursor(session, SERVER.setArguments)),
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
  const { line } = editor.selection.active;
  try {
    await client.sendRequest('workspace/executeCommand', { command, arguments: [{ uri, line }] });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    session.log.error(`${command}: ${reason}`);
    void vscode.window.showErrorMessage(`AccelOpt: ${reason}`);
  }
}

async function showMenu(session: Session): Promise<void> {
  const choices: Choice[] = [];
  if (session.jobs.titles.length > 0) {
    choices.push({ label: '$(stop-circle) Cancel Job', command: 'accelopt.cancelJob' });
  }
  if (session.running !== undefined) {
    choices.push(
      { label: '$(rocket) Optimize Kernel', command: 'accelopt.optimizeKernel' },
      { label: '$(dashboard) Profile Kernel', command: 'accelopt.profileKernel' },
      { label: '$(symbol-parameter) Set Arguments', command: 'accelopt.setKernelArguments' },
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
