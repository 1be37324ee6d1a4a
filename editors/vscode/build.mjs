// Bundles the extension into dist/extension.js, with the licences of what is bundled beside it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const production = process.argv.includes('--production');

const result = await build({
  entryPoints: ['src/extension.ts'],
  outfile: 'dist/extension.js',
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  external: ['vscode'],
  minify: production,
  sourcemap: !production,
  metafile: true,
  logLevel: 'warning',
});

const packages = new Set();
for (const file of Object.keys(result.metafile.inputs)) {
  const found = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file);
  if (found) packages.add(found[0]);
}
const notices = [...packages].sort().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json')));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file || !existsSync(path.join(folder, file))) throw new Error(`${name} has no licence file`);
  return `${name} ${version} (${license})\n\n${readFileSync(path.join(folder, file), 'utf8').trim()}\n`;
});
writeFileSync('dist/LICENSES.txt', notices.join(`\n${'-'.repeat(80)}\n\n`));
