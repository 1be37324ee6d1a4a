// One language client at a time: started when the first kernel is seen, restarted on demand.
import * as vscode from 'vscode';
import {
  ApplyWorkspaceEditRequest,
  CloseAction,
  ErrorAction,
  LanguageClient,
  ShowMessageNotification,
  ShowMessageRequest,
  State as ClientState,
  Trace,
  WorkDoneProgressCancelNotification,
  type ErrorHandler,
  type LanguageClientOptions,
  type ServerOptions,
} from 'vscode-languageclient/node';
import { isKernelFile, SELECTOR } from './documents';
import { findServer, type Launch } from './launch';
import { Pages } from './pages';
import { Preview } from './preview';
import { Jobs } from './progress';
import { Status } from './status';

const STOP_TIMEOUT_MS = 3_000;
/** Crashes within a while after which the server is no longer restarted by itself. */
const MAX_CRASHES = 3;
const CRASH_WINDOW_MS = 3 * 60_000;

const HOW = 'How to Install';
const CHOOSE = 'Open Settings';
const RETRY = 'Retry';
const OUTPUT = 'Show Output';
const RESTART = 'Restart Server';

/** Restarts a crashed server, but not for ever, and says so when it gives up. */
class Crashes implements ErrorHandler {
  private readonly times: number[] = [];

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly givenUp: () => void,
  ) {}

  error(error: Error): { action: ErrorAction; handled: boolean } {
    this.log.warn(`Connection to the language server: ${error.message}`);
    return { action: ErrorAction.Continue, handled: true };
  }

  closed(): { action: CloseAction; handled: boolean } {
    const now = Date.now();
    this.times.push(now);
    const recent = this.times.filter((time) => now - time < CRASH_WINDOW_MS);
    if (recent.length <= MAX_CRASHES) {
      return { action: CloseAction.Restart, handled: true };
    }
    this.givenUp();
    return { action: CloseAction.DoNotRestart, handled: true };
  }
}

export class Session implements vscode.Disposable {
  readonly jobs = new Jobs((token) => {
    void this.client?.sendNotification(WorkDoneProgressCancelNotification.type, { token });
  });
  readonly preview = new Preview();
  private readonly pages = new Pages();
  private readonly status = new Status();
  private client: LanguageClient | undefined;
  private queue: Promise<void> = Promise.resolve();

  /**
   * @param log where the server's messages go
   * @param extension this extension; its folder is the working directory of the server, not the
   *   workspace, whose files could otherwise be taken for modules of the server and its children
   * @param environment variables that the server gets beside the editor's own; they may be secret
   */
  constructor(
    readonly log: vscode.LogOutputChannel,
    private readonly extension: vscode.Extension<unknown>,
    private readonly environment: () => Promise<Record<string, string>>,
  ) {
    this.jobs.onDidChange(() => this.status.setJobs(this.jobs.titles));
  }

  get running(): LanguageClient | undefined {
    return this.client?.state === ClientState.Running ? this.client : undefined;
  }

  /** Start the server, unless it is there already. */
  start(): Promise<void> {
    return this.enqueue(async () => {
      if (this.client === undefined) {
        await this.launch();
      }
    });
  }

  restart(): Promise<void> {
    return this.enqueue(async () => {
      await this.shutDown();
      await this.launch();
    });
  }

  /** Restart after a change of settings, if the server runs or was looked for in vain. */
  async restartIfWanted(): Promise<void> {
    if (this.client !== undefined || vscode.workspace.textDocuments.some(isKernelFile)) {
      await this.restart();
    }
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.shutDown());
  }

  refreshStatus(): void {
    this.status.refresh();
  }

  /** Starts and stops run one after the other, and one that fails does not block the next. */
  private enqueue(step: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(step).catch((error: unknown) => {
      this.log.error(String(error));
    });
    return this.queue;
  }

  private async shutDown(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.jobs.clear();
    this.preview.answer(false);
    if (client !== undefined) {
      try {
        await client.dispose(STOP_TIMEOUT_MS);
      } catch (error) {
        this.log.warn(`The language server did not stop in order: ${String(error)}`);
      }
    }
    this.status.set('stopped');
  }

  private async launch(): Promise<void> {
    this.status.set('starting');
    let launch: Launch;
    try {
      launch = await findServer(this.log);
    } catch (error) {
      this.status.set('missing');
      this.log.error(String(error));
      void this.explainMissing(error);
      return;
    }
    this.log.info(`Starting ${[launch.command, ...launch.args].join(' ')} (from ${launch.source})`);
    const client = this.createClient(launch, await this.environment());
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      this.client = undefined;
      this.status.set('stopped');
      this.log.error(`The language server did not start: ${String(error)}`);
      void this.explainFailure(
        `AccelOpt: the language server did not start with "${launch.command}" (from ${launch.source}).`,
      );
    }
  }

  private createClient(launch: Launch, environment: Record<string, string>): LanguageClient {
    const server: ServerOptions = {
      command: launch.command,
      args: [...launch.args],
      options: { cwd: this.extension.extensionPath, env: { ...process.env, ...environment } },
    };
    const options: LanguageClientOptions = {
      documentSelector: SELECTOR,
      outputChannel: this.log,
      synchronize: { configurationSection: 'accelopt' },
      initializationOptions: {
        trusted: vscode.workspace.isTrusted,
        settings: vscode.workspace.getConfiguration('accelopt'),
      },
      errorHandler: new Crashes(this.log, () => {
        this.status.set('stopped');
        void this.explainFailure('AccelOpt: the language server keeps stopping; it stays off.');
      }),
      initializationFailedHandler: () => false,
      middleware: {
        handleWorkDoneProgress: (token, params, next) => {
          this.jobs.handle(token, params, () => next(token, params));
        },
        window: {
          showDocument: (params, next) =>
            this.pages.show(params, async () => {
              const result = await next(params, new vscode.CancellationTokenSource().token);
              return 'success' in result ? result : { success: false };
            }),
        },
      },
    };
    const client = new LanguageClient('accelopt', 'AccelOpt', server, options);
    client.onRequest(ApplyWorkspaceEditRequest.type.method, (params) =>
      this.preview.handle(params, client),
    );
    client.onNotification(ShowMessageNotification.type, (params) =>
      this.pages.message(params),
    );
    client.onRequest(ShowMessageRequest.type.method, (params) => this.preview.answerFor(params));
    client.onDidChangeState((event) => {
      if (client !== this.client) {
        return;
      }
      if (event.newState === ClientState.Running) {
        this.status.set('ready');
      } else {
        this.jobs.clear();
        this.status.set(event.newState === ClientState.Starting ? 'starting' : 'stopped');
      }
    });
    void client.setTrace(Trace.fromString(this.traceLevel()));
    return client;
  }

  private traceLevel(): string {
    return vscode.workspace.getConfiguration('accelopt').get<string>('trace.server', 'off');
  }

  private async explainMissing(error: unknown): Promise<void> {
    const message = error instanceof Error ? error.message : String(error);
    const choice = await vscode.window.showErrorMessage(message, HOW, CHOOSE, RETRY);
    if (choice === HOW) {
      await vscode.commands.executeCommand('extension.open', this.extension.id);
    } else if (choice === CHOOSE) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'accelopt.python');
    } else if (choice === RETRY) {
      await this.restart();
    }
  }

  private async explainFailure(message: string): Promise<void> {
    const choice = await vscode.window.showErrorMessage(message, OUTPUT, RESTART);
    if (choice === OUTPUT) {
      this.log.show();
    } else if (choice === RESTART) {
      await this.restart();
    }
  }

  dispose(): void {
    this.status.dispose();
    this.preview.dispose();
    this.jobs.dispose();
  }
}
