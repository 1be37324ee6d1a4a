// Long work of the server as notifications with a Cancel button.
import * as vscode from 'vscode';
import type {
  ProgressToken,
  WorkDoneProgressBegin,
  WorkDoneProgressEnd,
  WorkDoneProgressReport,
} from 'vscode-languageclient/node';

type Params = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;
type Update = vscode.Progress<{ message?: string; increment?: number }>;

class Job {
  private finish: () => void = () => undefined;
  private report: Update | undefined;
  private percentage = 0;
  private readonly done = new Promise<void>((resolve) => {
    this.finish = resolve;
  });

  constructor(
    readonly title: string,
    readonly cancel: () => void,
  ) {}

  show(first: WorkDoneProgressBegin): void {
    void vscode.window.withProgress(
      {
        location: vscode.ProgressLocation.Notification,
        title: `AccelOpt: ${this.title}`,
        cancellable: true,
      },
      (report, token) => {
        this.report = report;
        token.onCancellationRequested(this.cancel);
        this.update(first);
        return this.done;
      },
    );
  }

  update(value: { message?: string; percentage?: number }): void {
    const percentage = value.percentage ?? this.percentage;
    const increment = percentage - this.percentage;
    this.percentage = percentage;
    this.report?.report({
      ...(value.message === undefined ? {} : { message: value.message }),
      ...(increment > 0 ? { increment } : {}),
    });
  }

  end(): void {
    this.finish();
  }
}

/** The server's running jobs that the user can cancel. */
export class Jobs implements vscode.Disposable {
  private readonly running = new Map<ProgressToken, Job>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;

  constructor(private readonly cancelToken: (token: ProgressToken) => void) {}

  /** Middleware of the language client: `next` shows progress in the status bar. */
  handle(token: ProgressToken, params: Params, next: () => void): void {
    const job = this.running.get(token);
    if (params.kind === 'begin' && params.cancellable === true) {
      const started = new Job(params.title, () => this.cancelToken(token));
      this.running.set(token, started);
      started.show(params);
    } else if (job === undefined) {
      next();
      return;
    } else if (params.kind === 'report') {
      job.update(params);
      return;
    } else {
      this.running.delete(token);
      job.end();
    }
    this.changed.fire();
  }

  get titles(): string[] {
    return [...this.running.values()].map((job) => job.title);
  }

  /** Cancel one job; with several running, the user picks it. */
  async cancelOne(): Promise<void> {
    const jobs = [...this.running.values()];
    const [first] = jobs;
    if (first === undefined) {
      void vscode.window.showInformationMessage('AccelOpt: no job is running.');
    } else if (jobs.length === 1) {
      first.cancel();
    } else {
      const picked = await vscode.window.showQuickPick(
        jobs.map((job) => ({ label: job.title, job })),
        { placeHolder: 'Which job should be cancelled?' },
      );
      picked?.job.cancel();
    }
  }

  /** The server is gone: no job will report its end. */
  clear(): void {
    for (const job of this.running.values()) {
      job.end();
    }
    this.running.clear();
    this.changed.fire();
  }

  dispose(): void {
    this.clear();
    this.changed.dispose();
  }
}
