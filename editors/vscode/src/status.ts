// The status bar item: is the server there, and is it at work?
import * as vscode from 'vscode';
import { isKernelFile } from './documents';

export type State = 'starting' | 'ready' | 'stopped' | 'missing';

const TEXT: Record<State, string> = {
  starting: '$(loading~spin) AccelOpt',
  ready: '$(rocket) AccelOpt',
  stopped: '$(error) AccelOpt',
  missing: '$(warning) AccelOpt',
};

const TOOLTIP: Record<State, string> = {
  starting: 'AccelOpt: the language server is starting',
  ready: 'AccelOpt: ready',
  stopped: 'AccelOpt: the language server has stopped',
  missing: 'AccelOpt: the accelopt-lsp package was not found',
};

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    'accelopt.status',
    vscode.StatusBarAlignment.Right,
    90,
  );
  private readonly listener: vscode.Disposable;
  private state: State = 'stopped';
  private jobs: readonly string[] = [];

  constructor() {
    this.item.name = 'AccelOpt';
    this.item.command = 'accelopt.showMenu';
    this.listener = vscode.window.onDidChangeActiveTextEditor(() => this.refresh());
    this.refresh();
  }

  set(state: State): void {
    this.state = state;
    void vscode.commands.executeCommand('setContext', 'accelopt.ready', state === 'ready');
    this.refresh();
  }

  setJobs(titles: readonly string[]): void {
    this.jobs = titles;
    void vscode.commands.executeCommand('setContext', 'accelopt.busy', titles.length > 0);
    this.refresh();
  }

  /** Show the item beside kernels, and wherever a job runs. */
  refresh(): void {
    const kernel = isKernelFile(vscode.window.activeTextEditor?.document);
    void vscode.commands.executeCommand('setContext', 'accelopt.kernelFile', kernel);
    const [job, ...others] = this.jobs;
    if (job !== undefined && this.state === 'ready') {
      const more = others.length > 0 ? ` (+${others.length})` : '';
      this.item.text = `$(sync~spin) ${job}${more}`;
      this.item.tooltip = `AccelOpt is working: ${this.jobs.join(', ')}`;
    } else {
      this.item.text = TEXT[this.state];
      const trust = vscode.workspace.isTrusted ? '' : '\nFolder not trusted: kernels are not run';
      this.item.tooltip = TOOLTIP[this.state] + trust;
    }
    const wrong = this.state === 'stopped' || this.state === 'missing';
    this.item.backgroundColor = wrong
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    if (kernel || this.jobs.length > 0) {
      this.item.show();
    } else {
      this.item.hide();
    }
  }

  dispose(): void {
    this.listener.dispose();
    this.item.dispose();
  }
}
