// Which endpoint a key belongs to.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { build } from 'esbuild';

const bundle = await build({
  entryPoints: [new URL('../src/endpoint.ts', import.meta.url).pathname],
  bundle: true,
  write: false,
  format: 'esm',
});
const code = Buffer.from(bundle.outputFiles[0].text).toString('base64');
const { hostOf, originOf } = await import(`data:text/javascript;base64,${code}`);

const ORIGINS = {
  'https://api.openai.com/v1': 'https://api.openai.com',
  'localhost:11434': 'http://localhost:11434',
  ' http://[::1]:8000/v1/ ': 'http://[::1]:8000',
  'https://r.openai.azure.com/openai?api-version=1': 'https://r.openai.azure.com',
  'https://user:secret@host/v1': 'https://host',
  'ftp://host': undefined,
  'http://': undefined,
};

for (const [url, origin] of Object.entries(ORIGINS)) {
  test(`origin of ${url}`, () => assert.equal(originOf(url), origin));
}
test('hosts', () => {
  assert.equal(hostOf('http://localhost:11434'), 'localhost');
  assert.equal(hostOf('http://[::1]:8000'), '::1');
});
