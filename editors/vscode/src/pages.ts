// What the server has written for people: pages are shown as they are meant to look, and timelines
// are for a viewer in the browser, which may be on another machine than they are.
import * as path from 'node:path';
import * as vscode from 'vscode';
import {
  MessageType,
  type ShowDocumentParams,
  type ShowDocumentResult,
  type ShowMessageParams,
} from 'vscode-languageclient/node';

const PERFETTO = vscode.Uri.parse('https://ui.perfetto.dev');
const TRACE = '.trace.json';
const PAGE = '.md';
const SAVE = 'Save As…';
const OPEN = 'Open Perfetto';

export class Pages {
  /** A trace that the server has asked to show, and that its next message is about. */
  private trace: vscode.Uri | undefined;

  /** Handle `window/showDocument`. */
  async show(
    params: ShowDocumentParams,
    next: () => Promise<ShowDocumentResult>,
  ): Promise<ShowDocumentResult> {
    const uri = vscode.Uri.parse(params.uri);
    if (params.external === true && uri.path.endsWith(TRACE)) {
      this.trace = uri;
      return { success: true };
    }
    if (params.external !== true && uri.path.endsWith(PAGE)) {
      await vscode.commands.executeCommand('markdown.showPreview', uri);
      return { success: true };
    }
    return next();
  }

  /** Handle `window/showMessage`; beside the words about a trace stands what can be done with it. */
  async message(params: ShowMessageParams): Promise<void> {
    if (params.type === MessageType.Error) {
      void vscode.window.showErrorMessage(params.message);
    } else if (params.type === MessageType.Warning) {
      void vscode.window.showWarningMessage(params.message);
    } else {
      const trace = this.trace;
      this.trace = undefined;
      const buttons = trace === undefined ? [] : [SAVE, OPEN];
      const choice = await vscode.window.showInformationMessage(params.message, ...buttons);
      if (trace !== undefined && choice === SAVE) {
        await save(trace);
      } else if (choice === OPEN) {
        await vscode.env.openExternal(PERFETTO);
      }
    }
  }
}

async function save(trace: vscode.Uri): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const name = path.posix.basename(trace.path);
  const target = await vscode.window.showSaveDialog({
    title: 'Save the timeline',
    filters: { 'Perfetto trace': ['json'] },
    ...(folder === undefined ? {} : { defaultUri: vscode.Uri.joinPath(folder, name) }),
  });
  if (target === undefined) {
    return;
  }
  try {
    await vscode.workspace.fs.copy(trace, target, { overwrite: true });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    void vscode.window.showErrorMessage(`AccelOpt: the timeline was not saved: ${reason}`);
  }
}
