// Whether a text holds NKI kernels, told from its imports alone.

const NKI_IMPORT =
  /^[ \t]*(?:from[ \t]+(?:neuronxcc|nki)(?:\.[\w.]+)?[ \t]+import\b|import[ \t]+(?:[\w. \t]+,[ \t]*)?(?:neuronxcc|nki)\b)/m;

/** How much of a file is searched for the import; kernels import NKI at the top. */
const HEAD = 64 * 1024;

export function importsNki(text: string): boolean {
  return NKI_IMPORT.test(text.slice(0, HEAD));
}
