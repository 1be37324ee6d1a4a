// Which documents the language server is for: kernels in files, in unsaved text and in notebooks.
import * as vscode from 'vscode';
import { importsNki } from './kernels';

const CELL = 'vscode-notebook-cell';

/** What the server is told of. */
export const SELECTOR = ['file', 'untitled', CELL].map((scheme) => ({
  scheme,
  language: 'python',
}));

export function isKernelFile(
  document: vscode.TextDocument | undefined,
): document is vscode.TextDocument {
  return (
    document !== undefined &&
    vscode.languages.match(SELECTOR, document) > 0 &&
    partsOf(document).some((part) => importsNki(part.getText()))
  );
}

/** A cell's notebook counts as one file: the import may stand in another cell. */
function partsOf(document: vscode.TextDocument): readonly vscode.TextDocument[] {
  if (document.uri.scheme !== CELL) {
    return [document];
  }
  const cells = vscode.workspace.notebookDocuments.map((notebook) =>
    notebook.getCells().map((cell) => cell.document),
  );
  return cells.find((documents) => documents.includes(document)) ?? [document];
}
