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

/** What stands over the kernel. */
function lens(text) {
  return vscode.editor.locator('.codelens-decoration', { hasText: text }).first();
}

/** A link there; VS Code shows texts that it remembers at once, and makes them links later. */
async function follow(text) {
  await vscode.editor.locator('.codelens-decoration a', { hasText: text }).first().click();
}

/** A click on Profile replaces the estimate by a simulated figure. */
async function profile() {
  await follow(/^Profile$/);
  await lens(/simulated/).waitFor();
  await vscode.shot('profiled');
  await vscode.clearToasts();
}

/** A trace is kept where the user wants it. */
async function timeline() {
  await follow(/^Timeline$/);
  const said = vscode.toasts.filter({ hasText: 'Perfetto' }).first();
  await said.waitFor();
  await vscode.shot('timeline');
  await said.getByRole('button', { name: 'Save As' }).click();
  const input = vscode.page.locator('.quick-input-widget input').first();
  await input.waitFor();
  await vscode.page.keyboard.press('Enter');
  await until(() => vscode.exists('weigh.trace.json'), 10_000, () => 'no trace was saved');
  assert.ok(JSON.parse(vscode.read('weigh.trace.json')).traceEvents.length > 10);
  await vscode.clearToasts();
}

async function explain() {
  await intoKernel();
  await vscode.command('AccelOpt: Explain the Bottleneck');
  await vscode.page.locator('.tab.active', { hasText: /weigh\.md/ }).waitFor();
  const frame = vscode.page.frameLocator('iframe.webview.ready').frameLocator('#active-frame');
  await frame.getByRole('heading', { name: 'What bounds it' }).waitFor();
  await vscode.shot('explained');
  await vscode.backTo(FILE);
}

/** The target is asked for, and stands in the directive afterwards. */
async function target() {
  await follow(/^Target$/);
  const question = vscode.toasts.filter({ hasText: 'trn2' }).first();
  await question.waitFor();
  await vscode.shot('target');
  await question.getByRole('button', { name: 'trn2' }).click();
  await vscode.lines.filter({ hasText: 'target=trn2' }).first().waitFor();
  await lens(/trn2/).waitFor();
  await vscode.command('Undo');
  await lens(/trn1/).waitFor();
  await vscode.clearToasts();
}

/** A server that is killed comes back, and with it what it shows. */
async function killed() {
  const pids = vscode.pids(/accelopt_lsp serve/);
  assert.ok(pids.length > 0, 'no server to kill');
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  const anew = () => vscode.pids(/accelopt_lsp serve/).filter((pid) => !pids.includes(pid));
  await until(() => anew().length > 0, 30_000, () => 'the server was not started again');
  await vscode.page.locator(READY).waitFor();
  await lens(/ms|µs/).waitFor();
  await vscode.shot('restarted');
  await vscode.clearToasts();
}

/** A kernel in a cell, whose imports are in another, gets the same. */
async function notebook() {
  const { page } = vscode;
  await vscode.openFile('cells.ipynb');
  const cells = page.locator('.notebookOverlay');
  await cells.first().waitFor();
  const shown = cells.locator('.codelens-decoration').filter({ hasText: /ms|µs/ });
  await shown.first().waitFor();
  const hints = cells.locator('.view-line span[class*="dyn-rule"]').filter({ hasText: /\d/ });
  await hints.first().waitFor();
  await cells.locator('.squiggly-info, .squiggly-warning').first().waitFor();
  await vscode.shot('notebook');
  await cells.locator('.codelens-decoration a', { hasText: /^Profile$/ }).first().click();
  await cells.locator('.codelens-decoration').filter({ hasText: /simulated/ }).first().waitFor();
  await vscode.shot('notebook-profiled');
  await vscode.clearToasts();
  await vscode.backTo(FILE);
}

const SET_UP = ['missingServer', 'restricted'];
const scenarios = { missingServer, restricted, analysis, cancel, discard,
  profile, timeline, explain, target, killed, notebook, apply };

/** Those that E2E_ONLY names, after the first two, which set the editor up. */
function chosen() {
  const only = process.env.E2E_ONLY?.split(',');
  const wanted = ([name]) => only === undefined || [...SET_UP, ...only].includes(name);
  return Object.entries(scenarios).filter(wanted);
}

async function main() {
  vscode.configure({ 'accelopt.python': '/nowhere/python3' });
  await vscode.open(FILE);
  vscode.log('editor open');
  for (const [name, scenario] of chosen()) {
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
