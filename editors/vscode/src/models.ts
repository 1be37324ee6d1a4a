// The key of the model that optimizes: kept in the editor's secret store, one for each endpoint,
// and handed to the server in its environment, so that it is in no setting, message or log.
import * as vscode from 'vscode';
import { DEFAULT_URL, hostOf, originOf } from './endpoint';

const SECRET = 'accelopt.modelKey ';
const KEY = 'ACCELOPT_LLM_API_KEY';
const KEY_HOST = 'ACCELOPT_LLM_KEY_HOST';
const URLS = ['ACCELOPT_LLM_BASE_URL', 'OPENAI_BASE_URL'];

/** The endpoint that the user configured; a folder's own settings have no say in it. */
function endpoint(): string | undefined {
  const setting = vscode.workspace.getConfiguration('accelopt').inspect<string>('llm.baseUrl');
  const given = [setting?.globalValue, ...URLS.map((name) => process.env[name])];
  return originOf(given.find((url) => url !== undefined && url.trim() !== '') ?? DEFAULT_URL);
}

export class ModelKeys {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  /** What the server's environment gets. In a folder that is not trusted: nothing. */
  async environment(): Promise<Record<string, string>> {
    const origin = endpoint();
    if (!vscode.workspace.isTrusted || origin === undefined) {
      return {};
    }
    const key = await this.secrets.get(SECRET + origin);
    return key === undefined ? {} : { [KEY]: key, [KEY_HOST]: hostOf(origin) };
  }

  /** Ask for the key of the configured endpoint; true if one was given. */
  async set(): Promise<boolean> {
    const origin = endpoint();
    if (origin === undefined) {
      void vscode.window.showErrorMessage('AccelOpt: accelopt.llm.baseUrl is no URL.');
      return false;
    }
    const key = await vscode.window.showInputBox({
      title: 'AccelOpt: Set Model Key',
      prompt: `API key for ${origin}. It is kept in the secret store and sent nowhere else.`,
      password: true,
      ignoreFocusOut: true,
    });
    if (key === undefined || key.trim() === '') {
      return false;
    }
    await this.secrets.store(SECRET + origin, key.trim());
    return true;
  }

  /** Forget the key of the configured endpoint. */
  async forget(): Promise<void> {
    const origin = endpoint();
    if (origin !== undefined) {
      await this.secrets.delete(SECRET + origin);
      void vscode.window.showInformationMessage(`AccelOpt: the key for ${origin} is forgotten.`);
    }
  }
}
