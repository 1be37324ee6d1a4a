// Which files are taken for kernels, and so start the server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { build } from 'esbuild';

const bundle = await build({
  entryPoints: [new URL('../src/kernels.ts', import.meta.url).pathname],
  bundle: true,
  write: false,
  format: 'esm',
  external: ['vscode'],
});
const code = Buffer.from(bundle.outputFiles[0].text).toString('base64');
const { importsNki } = await import(`data:text/javascript;base64,${code}`);

const KERNELS = [
  'import nki',
  'import nki.language as nl',
  'from nki import isa as nisa',
  'import neuronxcc.nki as nki',
  'from neuronxcc import nki',
  'from neuronxcc.nki.language import par_dim',
  '"""Doc."""\n\nimport os, nki\n',
  'def build():\n    from neuronxcc import nki\n',
  'import numpy as np\r\nimport nki\r\n',
];
const OTHERS = [
  '',
  'import numpy as np',
  'import nkint',
  'from nkit import nki',
  'from mine.nki import kernel',
  '# import nki is not needed',
  'text = "import nki"',
  'import unknown_nki',
];

for (const text of KERNELS) {
  test(`a kernel: ${JSON.stringify(text)}`, () => assert.equal(importsNki(text), true));
}
for (const text of OTHERS) {
  test(`no kernel: ${JSON.stringify(text)}`, () => assert.equal(importsNki(text), false));
}
