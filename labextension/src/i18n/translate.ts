// Translates every text that a reader sees. In JupyterLab the plugin installs JupyterLab's translator; a page without a
// kernel brings catalogues of its own (`catalogue.ts`). A widget in another application shows English, the language of
// the texts in the code.
//
// Texts are whole phrases with numbered gaps (%1), never put together from words: other languages order words
// differently.

import { integer } from './format';

/** What JupyterLab's `ITranslator.load` gives. */
export interface Translations {
  __(msgid: string, ...args: string[]): string;
  _n(msgid: string, plural: string, n: number, ...args: string[]): string;
}

/** Shared by all bundles of cellmesh in a page: widget and panel are two. */
const page = globalThis as { cellmeshTranslations?: Translations | null; cellmeshLanguage?: string };

/** Translate with these texts from now on. */
export function translateWith(bundle: Translations | null, language = ''): void {
  page.cellmeshTranslations = bundle;
  page.cellmeshLanguage = language;
}

/** The language, for the kernel, which writes the cards of futures; '' is English. */
export function language(): string {
  return page.cellmeshLanguage ?? '';
}

export function fill(text: string, args: readonly string[]): string {
  return text.replace(/%(\d)/g, (gap, number: string) => args[Number(number) - 1] ?? gap);
}

/** A text; %1, %2 … are what follows it. */
export function __(text: string, ...args: (string | number)[]): string {
  const given = args.map(String);
  return page.cellmeshTranslations?.__(text, ...given) ?? fill(text, given);
}

/** A text that counts: %1 is the bare number, %2 the number as the reader writes it, %3 … the arguments after it. */
export function _n(one: string, many: string, n: number, ...args: (string | number)[]): string {
  const given = [integer(n), ...args.map(String)];
  return page.cellmeshTranslations?._n(one, many, n, ...given) ?? fill(n === 1 ? one : many, [String(n), ...given]);
}

export function nTasks(n: number): string {
  return _n('%2 task', '%2 tasks', n);
}

export function nObjects(n: number): string {
  return _n('%2 object', '%2 objects', n);
}
