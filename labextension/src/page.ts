// The code of a page that holds a recording: one file, no kernel, no network (`cellmesh/recording.py` makes it).

import { h, render } from 'preact';
import german from '../../cellmesh/locale/de_DE/LC_MESSAGES/cellmesh.json';
import japanese from '../../cellmesh/locale/ja_JP/LC_MESSAGES/cellmesh.json';
import { type Catalogue, chosen, translations } from './catalogue';
import { Connection, message } from './connection';
import { Body } from './panels/graph/body';
import { PanelState } from './panels/graph/state';
import { fromBase64, readRecording } from './recording';
import { installStyles } from './styles';
import { translateWith } from './text';

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
