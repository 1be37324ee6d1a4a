// Where a model is: the part of its URL that a key belongs to.

export const DEFAULT_URL = 'https://api.openai.com/v1';

/** Scheme, host and port of an endpoint as people write it; undefined if it is no URL. */
export function originOf(url: string): string | undefined {
  const text = url.trim();
  try {
    const { protocol, origin } = new URL(text.includes('://') ? text : `http://${text}`);
    return protocol === 'http:' || protocol === 'https:' ? origin : undefined;
  } catch {
    return undefined;
  }
}

/** The host of an origin, without its port. */
export function hostOf(origin: string): string {
  return new URL(origin).hostname.replace(/^\[(.*)\]$/, '$1');
}
