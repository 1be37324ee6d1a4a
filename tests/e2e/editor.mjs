// A VS Code in Chromium: how the test opens it, finds things in it and types into it.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const require = createRequire(path.join(process.env.DRIVER, 'package.json'));
const { chromium } = require('playwright-core');

const CHROMIUM_OPTIONS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
];

export const SETTINGS = {
  'security.workspace.trust.startupPrompt': 'never',
  'telemetry.telemetryLevel': 'off',
  'workbench.enableExperiments': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'chat.disableAIFeatures': true,
  'chat.commandCenter.enabled': false,
  'extensions.autoCheckUpdates': false,
  'extensions.autoUpdate': false,
  'extensions.ignoreRecommendations': true,
  'update.mode': 'none',
  'git.enabled': false,
  'files.autoSave': 'off',
  'editor.minimap.enabled': false,
  'editor.inlayHints.enabled': 'on',
  'editor.lightbulb.enabled': 'on',
  'editor.cursorBlinking': 'solid',
};

export class Editor {
  constructor({ port, server, state, shots }) {
    Object.assign(this, { port, server, state, shots });
    this.workspace = path.join(state, 'workspace');
    this.started = Date.now();
    this.outside = new Set();
    this.step = 0;
  }

  log(...words) {
    const seconds = ((Date.now() - this.started) / 1000).toFixed(1).padStart(6);
    console.log(seconds, ...words);
  }

  /** Write the settings of this machine, such as paths of programs; a running editor follows. */
  configure(machine) {
    this.write('data/User/settings.json', SETTINGS);
    this.write('data/Machine/settings.json', machine);
  }

  write(name, settings) {
    const file = path.join(this.state, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify(settings, null, 2));
  }

  async waitForServer(timeout = 60_000) {
    const end = Date.now() + timeout;
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${this.port}/healthz`).catch(() => undefined);
      if (answer?.ok) return;
      if (Date.now() > end) throw new Error('code-server does not answer');
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  async open(file) {
    await this.waitForServer();
    this.profile = mkdtempSync(path.join(os.tmpdir(), 'accelopt-e2e-'));
    this.context = await chromium.launchPersistentContext(this.profile, {
      executablePath: process.env.CHROMIUM,
      headless: true,
      viewport: { width: 1400, height: 900 },
      args: CHROMIUM_OPTIONS,
    });
    this.page = this.context.pages()[0] ?? (await this.context.newPage());
    this.page.setDefaultTimeout(60_000);
    this.page.on('request', (request) => {
      const { protocol, hostname } = new URL(request.url());
      // A webview's resources have a host name that its service worker answers for.
      const ours = hostname === '127.0.0.1' || hostname.endsWith('.vscode-resource.vscode-cdn.net');
      if (/^(https?|wss?):$/.test(protocol) && !ours) this.outside.add(hostname);
    });
    const uri = `vscode-remote://127.0.0.1:${this.port}${path.join(this.workspace, file)}`;
    const payload = encodeURIComponent(JSON.stringify([['openFile', uri]]));
    const folder = encodeURIComponent(this.workspace);
    await this.page.goto(`http://127.0.0.1:${this.port}/?folder=${folder}&payload=${payload}`, {
      waitUntil: 'domcontentloaded',
    });
    await this.page.locator('.monaco-workbench').waitFor();
    await this.lines.first().waitFor();
  }

  get editor() {
    return this.page.locator('.editor-instance .monaco-editor').first();
  }

  get lines() {
    return this.editor.locator('.view-line');
  }

  get toasts() {
    return this.page.locator('.notifications-toasts .notification-toast');
  }

  statusItem(text) {
    return this.page.locator('.statusbar-item', { hasText: text }).first();
  }

  exists(file) {
    return existsSync(path.join(this.workspace, file));
  }

  read(file) {
    return readFileSync(path.join(this.workspace, file), 'utf8');
  }

  async shot(name) {
    this.step += 1;
    const file = `${String(this.step).padStart(2, '0')}-${name}.png`;
    await this.page.screenshot({ path: path.join(this.shots, file) });
  }

  /** Open the palette with some text in it. */
  async palette(text) {
    await this.page.keyboard.press('F1');
    const input = this.page.locator('.quick-input-widget input').first();
    await input.waitFor();
    await input.fill(`>${text}`);
    return input;
  }

  /** Run a command of the palette by its full title. */
  async command(title) {
    const input = await this.palette(title);
    // The first match of the palette's fuzzy search may be another command.
    const exact = new RegExp(`^${title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`);
    const label = this.page.locator('.label-name', { hasText: exact });
    await this.page.locator('.quick-input-list .monaco-list-row').filter({ has: label }).click();
    await input.waitFor({ state: 'hidden' });
  }

  /** Open a file of the workspace in the explorer. */
  async openFile(file) {
    const row = this.page.locator('.explorer-folders-view .monaco-list-row', { hasText: file });
    await row.first().dblclick();
    await this.page.locator('.tab.active', { hasText: file }).waitFor();
  }

  /** Close the other editors; what the test looks at is the first one's. */
  async backTo(file) {
    await this.page.locator('.tab', { hasText: file }).first().click();
    await this.page.locator('.tab.active', { hasText: file }).waitFor();
    await this.command('View: Close Other Editors in Group');
    await this.lines.first().waitFor();
  }

  /** Close every notification, so that the next one seen is a new one. */
  async clearToasts() {
    await this.command('Notifications: Clear All Notifications');
    await this.toasts.first().waitFor({ state: 'detached' });
  }

  /** Command lines of the processes below the editor's server. */
  processes() {
    return [...this.family().values()];
  }

  /** Ids of those whose command line matches. */
  pids(pattern) {
    return [...this.family()].filter(([, line]) => pattern.test(line)).map(([pid]) => pid);
  }

  /** Command lines by process id. */
  family() {
    const parents = new Map();
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        // The command, in parentheses, may hold blanks.
        const parent = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1];
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
        parents.set(pid, { parent, line });
      } catch {
        continue; // it has ended
      }
    }
    const below = (pid) => {
      const process = parents.get(pid);
      return process !== undefined && (process.parent === this.server || below(process.parent));
    };
    const found = [...parents].filter(([pid]) => below(pid));
    return new Map(found.map(([pid, { line }]) => [Number(pid), line]));
  }

  /** What is left when a step failed: a picture, the page, and the editor's logs. */
  async keepEvidence() {
    await this.shot('failure').catch(() => undefined);
    const html = await this.page?.content().catch(() => '');
    writeFileSync(path.join(this.shots, 'failure.html'), html ?? '');
    const logs = path.join(this.state, 'data/logs');
    if (!existsSync(logs)) return;
    const found = readdirSync(logs, { recursive: true }).filter((name) => /AccelOpt/.test(name));
    for (const name of found) {
      console.error(`--- ${name}`);
      console.error(readFileSync(path.join(logs, name), 'utf8').split('\n').slice(-60).join('\n'));
    }
  }

  async close() {
    await this.context?.close().catch(() => undefined);
    if (this.profile) rmSync(this.profile, { recursive: true, force: true });
  }
}
