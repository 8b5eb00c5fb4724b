// The script of a page that contains a recording, without kernel or network (`cellmesh/observe/recording.py` makes the
// page).

import { h, render } from 'preact';
import german from '../../../cellmesh/locale/de_DE/LC_MESSAGES/cellmesh.json';
import japanese from '../../../cellmesh/locale/ja_JP/LC_MESSAGES/cellmesh.json';
import { Connection, message } from '../connection/connection';
import { type Catalogue, chosen, translations } from '../i18n/catalogue';
import { translateWith } from '../i18n/translate';
import { Body } from '../panels/body';
import { PanelState } from '../panels/shared/state';
import { installStyles } from '../panels/shared/styles';
import { fromBase64, readRecording } from '../recording/transport';

const CATALOGUES: Record<string, Catalogue> = { de: german, ja: japanese };

async function main(): Promise<void> {
  const host = document.getElementById('run')!;
  const data = document.getElementById('recording')!;
  installStyles(host);
  const language = chosen(navigator.languages, Object.keys(CATALOGUES));
  if (language !== undefined && CATALOGUES[language]) {
    document.documentElement.lang = language;
    translateWith(translations(CATALOGUES[language]));
  }
  const state = new PanelState();
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const show = () => {
    render(h(Body, { state, options: { wheel: 'always' }, isDark: dark.matches }), host);
    state.look.value++;
  };
  dark.addEventListener('change', show);
  show();
  try {
    const connection = new Connection(await readRecording(fromBase64(data.textContent), data.dataset['title'] ?? ''));
    data.remove(); // unpacked by now
    state.connect(connection);
    await connection.start();
  } catch (error) {
    state.problem.value = message(error);
  }
}

void main();
