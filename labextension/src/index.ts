// src/: the panel in JupyterLab, in a widget and in a saved page; never the truth, which is what events say.
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { recordingPlugin } from './lab/document';
import { panelPlugin } from './lab/plugin';

const plugins: JupyterFrontEndPlugin<void>[] = [panelPlugin, recordingPlugin];
export default plugins;
