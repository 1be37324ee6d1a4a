// Which documents hold NKI kernels, told from the imports alone.
import { TextDocument } from 'vscode';

const NKI_IMPORT =
  /^[ \t]*(?:from[ \t]+(?:neuronxcc|nki)(?:\.[\w.]+)?[ \t]+import\b|import[ \t]+(?:[\w. \t]+,[ \t]*)?(?:neuronxcc|nki)\b)/m;

/** How much of a file is searched for the import; kernels import NKI at the top. */
const HEAD = 64 * 1024;

export function importsNki(text: string): boolean {
  return NKI_IMPORT.test(text.slice(0, HEAD));
}

export function isKernelFile(document: TextDocument | undefined): document is TextDocument {
  return (
    document !== undefined &&
    document.languageId === 'python' &&
    document.uri.scheme === 'file' &&
    importsNki(document.getText())
  );
}
