// An edit that asks for confirmation is shown as a diff of the whole file before it is applied.
import * as path from 'node:path';
import * as vscode from 'vscode';
import {
  MessageType,
  type ApplyWorkspaceEditParams,
  type ApplyWorkspaceEditResult,
  type LanguageClient,
  type MessageActionItem,
  type ShowMessageRequestParams,
  type TextDocumentEdit,
  type TextEdit,
  type WorkspaceEdit,
} from 'vscode-languageclient/node';

const SCHEME = 'accelopt-preview';
const CONTEXT = 'accelopt.previewing';
const APPLY = 'Apply';
const DISCARD = 'Discard';
/** What the server calls the look at the diff, when it asks whether to apply a result. */
const SHOW_DIFF = 'Show diff';
const DISCARDED: ApplyWorkspaceEditResult = {
  applied: false,
  failureReason: 'The user discarded the change.',
};
const STALE: ApplyWorkspaceEditResult = {
  applied: false,
  failureReason: 'The file has changed since the result was computed.',
};

type Decision = (apply: boolean) => void;

/** The one file that an edit changes, or undefined if it changes another number of files. */
function onlyChange(edit: WorkspaceEdit): { uri: string; version: number | null; edits: TextEdit[] } | undefined {
  if (edit.documentChanges !== undefined) {
    const [change, ...others] = edit.documentChanges;
    if (change === undefined || others.length > 0 || !('textDocument' in change)) {
      return undefined;
    }
    const { textDocument, edits } = change as TextDocumentEdit;
    return {
      uri: textDocument.uri,
      version: textDocument.version,
      edits: edits.filter((item): item is TextEdit => 'newText' in item),
    };
  }
  const [entry, ...others] = Object.entries(edit.changes ?? {});
  return entry === undefined || others.length > 0
    ? undefined
    : { uri: entry[0], version: null, edits: entry[1] };
}

function asksForConfirmation(edit: WorkspaceEdit): boolean {
  return Object.values(edit.changeAnnotations ?? {}).some((note) => note.needsConfirmation === true);
}

function applied(document: vscode.TextDocument, edits: readonly vscode.TextEdit[]): string {
  let text = document.getText();
  const descending = [...edits].sort((a, b) => b.range.start.compareTo(a.range.start));
  for (const edit of descending) {
    const start = document.offsetAt(edit.range.start);
    const end = document.offsetAt(edit.range.end);
    text = text.slice(0, start) + edit.newText + text.slice(end);
  }
  return text;
}

/** Shows the server's result beside the current text, and applies it only when told so. */
export class Preview implements vscode.Disposable, vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  private decide: Decision | undefined;
  /** The server's words about the edit that it will send next. */
  private offer: string | undefined;
  private count = 0;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? '';
  }

  /** Handle `workspace/applyEdit`. */
  async handle(
    params: ApplyWorkspaceEditParams,
    client: LanguageClient,
  ): Promise<ApplyWorkspaceEditResult> {
    const words = this.offer ?? params.label ?? 'AccelOpt';
    this.offer = undefined;
    const change = onlyChange(params.edit);
    const convert = client.protocol2CodeConverter;
    if (change === undefined || !asksForConfirmation(params.edit)) {
      const edit = await convert.asWorkspaceEdit(params.edit);
      return { applied: await vscode.workspace.applyEdit(edit) };
    }
    const uri = convert.asUri(change.uri);
    const document = await vscode.workspace.openTextDocument(uri);
    if (change.version !== null && document.version !== change.version) {
      return STALE;
    }
    const before = document.getText();
    const edits = await convert.asTextEdits(change.edits);
    const after = applied(document, edits);
    if (!(await this.ask(document, after, words))) {
      return DISCARDED;
    }
    if (document.getText() !== before) {
      return STALE;
    }
    const edit = new vscode.WorkspaceEdit();
    edit.set(uri, edits);
    const result = await vscode.workspace.applyEdit(edit);
    await vscode.window.showTextDocument(document);
    return { applied: result };
  }

  /**
   * Handle `window/showMessageRequest`.
   *
   * When the server offers a result, the answer is to go on: the edit that follows is shown
   * as a diff, under the same words, and the user decides there, once.
   */
  async answerFor(params: ShowMessageRequestParams): Promise<MessageActionItem | null> {
    const actions = params.actions ?? [];
    const apply = actions.find((action) => action.title === APPLY);
    if (apply !== undefined && actions.some((action) => action.title === SHOW_DIFF)) {
      this.offer = params.message;
      return apply;
    }
    switch (params.type) {
      case MessageType.Error:
        return (await vscode.window.showErrorMessage(params.message, ...actions)) ?? null;
      case MessageType.Warning:
        return (await vscode.window.showWarningMessage(params.message, ...actions)) ?? null;
      default:
        return (await vscode.window.showInformationMessage(params.message, ...actions)) ?? null;
    }
  }

  /** Answer the open question, if there is one. */
  answer(apply: boolean): void {
    this.decide?.(apply);
  }

  private async ask(
    document: vscode.TextDocument,
    after: string,
    label: string,
  ): Promise<boolean> {
    this.answer(false);
    this.count += 1;
    const uri = vscode.Uri.from({
      scheme: SCHEME,
      path: document.uri.path,
      query: String(this.count),
    });
    this.texts.set(uri.toString(), after);
    const decision = new Promise<boolean>((resolve) => {
      this.decide = resolve;
    });
    await vscode.commands.executeCommand('setContext', CONTEXT, true);
    const name = path.basename(document.uri.fsPath);
    await vscode.commands.executeCommand('vscode.diff', document.uri, uri, `${name} ↔ optimized`, {
      preview: true,
    });
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    const closed = vscode.window.tabGroups.onDidChangeTabs((event) => {
      if (tab !== undefined && event.closed.includes(tab)) {
        this.answer(false);
      }
    });
    void vscode.window.showInformationMessage(label, APPLY, DISCARD).then((choice) => {
      // A dismissed message leaves the diff with its own buttons.
      if (choice !== undefined) {
        this.answer(choice === APPLY);
      }
    });
    try {
      return await decision;
    } finally {
      this.decide = undefined;
      closed.dispose();
      this.texts.delete(uri.toString());
      await vscode.commands.executeCommand('setContext', CONTEXT, false);
      if (tab !== undefined && vscode.window.tabGroups.all.some((g) => g.tabs.includes(tab))) {
        await vscode.window.tabGroups.close(tab);
      }
    }
  }

  dispose(): void {
    this.answer(false);
    this.registration.dispose();
  }
}
