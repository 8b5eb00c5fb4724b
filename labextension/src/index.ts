import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { panelPlugin } from './lab/plugin';

const plugins: JupyterFrontEndPlugin<void>[] = [panelPlugin];
export default plugins;
