// The editor test: what a user sees and does, from a missing server to an optimized kernel.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { Editor } from './editor.mjs';

const FILE = 'weigh.py';
const READY = '.statusbar-item[aria-label*="AccelOpt: ready"]';
/** Processes that exist only while a job runs. */
const JOB = /accelopt_lsp\.(server\.job_process|profiler\.simulator\.child)/;
const { PORT, SERVER, STATE, SHOTS, PYTHON } = process.env;
const vscode = new Editor({ port: PORT, server: SERVER, state: STATE, shots: SHOTS });

async function until(condition, timeout, message) {
  const end = Date.now() + timeout;
  while (!condition()) {
    assert.ok(Date.now() < end, message());
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Profile of a file of the workspace, verified against the reference beside it. */
function verify(file) {
  const path = `${vscode.workspace}/${file}`;
  const output = execFileSync(PYTHON, ['-m', 'accelopt_lsp', 'profile', path, '--json']);
  return JSON.parse(output.toString());
}

/** Without the package, a message says so and offers what to do. */
async function missingServer() {
  const message = vscode.toasts.filter({ hasText: 'accelopt-lsp' });
  await message.first().waitFor();
  const buttons = await message.first().locator('.monaco-button').allInnerTexts();
  assert.ok(buttons.some((text) => /install/i.test(text)), `no way to install: ${buttons}`);
  await vscode.shot('missing');
  vscode.configure({ 'accelopt.python': PYTHON });
  await vscode.page.locator(READY).waitFor();
  await vscode.clearToasts();
}

/** In a folder that is not trusted nothing can be run, until the user trusts it. */
async function restricted() {
  const { page } = vscode;
  await vscode.statusItem('Restricted Mode').waitFor();
  await vscode.palette('AccelOpt:');
  const commands = page.locator('.quick-input-list .monaco-list-row');
  await commands.filter({ hasText: 'Restart Server' }).first().waitFor();
  assert.equal(await commands.filter({ hasText: 'Optimize Kernel' }).count(), 0);
  await vscode.shot('restricted');
  await page.keyboard.press('Escape');
  await vscode.command('Workspaces: Manage Workspace Trust');
  const trust = page.locator('.workspace-trust-editor').getByRole('button', { name: 'Trust' });
  await trust.first().click();
  await vscode.statusItem('Restricted Mode').waitFor({ state: 'detached' });
  await vscode.shot('trusted');
  await vscode.command('View: Close Editor');
  await page.locator(READY).waitFor();
}

async function analysis() {
  const { page, editor, lines } = vscode;
  const counter = page.locator('[id="status.problems"]:not([aria-label="No Problems"])');
  await counter.waitFor();
  vscode.log('problems:', await counter.getAttribute('aria-label'));
  const squiggle = '.squiggly-warning, .squiggly-error, .squiggly-info';
  await editor.locator(squiggle).first().waitFor();

  const hints = editor.locator('.view-line span[class*="dyn-rule"]');
  await hints.filter({ hasText: /\d/ }).first().waitFor();
  vscode.log('inlay hints:', JSON.stringify(await hints.allInnerTexts()));

  const lens = editor.locator('.codelens-decoration');
  await lens.filter({ hasText: /ms|µs/ }).first().waitFor();
  vscode.log('code lens:', JSON.stringify(await lens.allInnerTexts()));
  await vscode.shot('analysis');

  const call = lines.filter({ hasText: 'nl.multiply' }).locator('span > span');
  await call.filter({ hasText: /multiply/ }).first().hover();
  const hover = page.locator('.monaco-hover:not(.hidden)').filter({ hasText: /nl\.multiply/ });
  await hover.first().waitFor();
  await vscode.shot('hover');
  await page.keyboard.press('Escape');
  await page.mouse.move(1000, 700);
}

/** Put the cursor into the kernel, whose name is on a line of its own. */
async function intoKernel() {
  await vscode.lines.filter({ hasText: 'def weigh' }).first().click();
}

async function cancel() {
  await intoKernel();
  await vscode.command('AccelOpt: Optimize Kernel');
  const progress = vscode.toasts.filter({ hasText: /AccelOpt: / }).filter({ hasText: 'Cancel' });
  await progress.first().waitFor();
  await vscode.shot('progress');
  await progress.first().getByRole('button', { name: 'Cancel' }).click();
  await progress.first().waitFor({ state: 'detached', timeout: 10_000 });
  await vscode.statusItem('AccelOpt').waitFor();
  assert.equal(await vscode.page.locator('.monaco-diff-editor').count(), 0);
  const jobs = () => vscode.processes().filter((line) => JOB.test(line));
  await until(() => jobs().length === 0, 5_000, () => `left over: ${jobs().join('; ')}`);
  vscode.log('cancelled');
  await vscode.clearToasts();
}

/** Ask for an optimization by the light bulb; returns when its result is shown as a diff. */
async function propose() {
  const { page, toasts } = vscode;
  await intoKernel();
  await page.keyboard.press('Control+.');
  const action = page.locator('.action-widget .monaco-list-row', { hasText: 'Optimize kernel' });
  await action.first().waitFor();
  await vscode.shot('light-bulb');
  await action.first().click();
  const inserted = page.locator('.monaco-diff-editor .line-insert');
  const error = toasts.filter({ has: page.locator('.codicon-error') });
  await inserted.first().or(error.first()).waitFor({ timeout: 180_000 });
  assert.equal(await error.count(), 0, (await error.allInnerTexts()).join('\n'));
  const offer = toasts.filter({ hasText: 'Discard' });
  await offer.waitFor();
  await vscode.shot('preview');
  return offer;
}

async function diffIsGone() {
  await vscode.page.locator('.monaco-diff-editor').first().waitFor({ state: 'detached' });
}

async function discard() {
  const offer = await propose();
  vscode.log('offered:', JSON.stringify(await offer.innerText()));
  await offer.getByRole('button', { name: 'Discard' }).click();
  await diffIsGone();
  assert.equal(await vscode.page.locator('.tab.dirty').count(), 0, 'Discard changed the text');
  await vscode.clearToasts();
}

async function apply() {
  const before = vscode.read(FILE);
  const offer = await propose();
  await offer.getByRole('button', { name: 'Apply' }).click();
  await diffIsGone();
  await vscode.page.locator('.tab.dirty').first().waitFor();
  await vscode.page.keyboard.press('Control+S');
  await until(() => vscode.read(FILE) !== before, 15_000, () => 'Apply changed nothing');
  await vscode.shot('applied');
  const profile = verify(FILE);
  assert.equal(profile.correct, true, 'the optimized kernel does not match its reference');
  vscode.log(`verified: ${profile.latency_ms} ms, ${profile.provenance}`);
}

const scenarios = { missingServer, restricted, analysis, cancel, discard, apply };

async function main() {
  vscode.configure({ 'accelopt.python': '/nowhere/python3' });
  await vscode.open(FILE);
  vscode.log('editor open');
  for (const [name, scenario] of Object.entries(scenarios)) {
    await scenario();
    vscode.log(`ok ${name}`);
  }
  assert.deepEqual([...vscode.outside], [], 'the editor asked outside hosts');
}

let failed = false;
try {
  await main();
} catch (error) {
  failed = true;
  console.error(error);
  await vscode.keepEvidence();
} finally {
  await vscode.close();
}
process.exit(failed ? 1 : 0);
