// i18n/: words and numbers for readers; never a text that only programs read.

// Translations for pages without JupyterLab, from the same catalogues that JupyterLab reads.

import { fill, type Translations } from './translate';

/** The empty text is the key of the catalogue's head. A text that counts has a form for one and a form for more. */
export type Catalogue = Record<string, string[] | Record<string, string>>;

export function translations(catalogue: Catalogue): Translations {
  const forms = (text: string): string[] | undefined => {
    const found = text === '' ? undefined : catalogue[text];
    return Array.isArray(found) ? found : undefined;
  };
  const knowsPlural = !(catalogue[''] as Record<string, string>)['plural_forms']!.startsWith('nplurals=1;');
  return {
    __: (text, ...args) => fill(forms(text)?.[0] ?? text, args),
    _n: (one, many, n, ...args) =>
      fill(forms(one)?.[n !== 1 && knowsPlural ? 1 : 0] ?? (n === 1 ? one : many), [String(n), ...args])
  };
}

/** The first of the reader's languages that has a catalogue; undefined: English. */
export function chosen(languages: readonly string[], available: readonly string[]): string | undefined {
  const wanted = languages.map(language => language.toLowerCase().split('-')[0]!);
  return wanted.find(language => language === 'en' || available.includes(language));
}
