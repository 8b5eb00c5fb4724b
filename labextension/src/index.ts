import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { recordingPlugin } from './lab/document';
import { panelPlugin } from './lab/plugin';

const plugins: JupyterFrontEndPlugin<void>[] = [panelPlugin, recordingPlugin];
export default plugins;
