// Opens recordings as documents: a double click on a `.cellmesh` file shows it without a kernel.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ABCWidgetFactory, type DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import { LabIcon } from '@jupyterlab/ui-components';
import panelIcon from '../../style/panel.svg';
import { Connection, message } from '../connection/connection';
import { __ } from '../i18n/translate';
import { GraphPanel } from './graph_panel';

const FILE_TYPE = 'cellmesh-recording';
const icon = new LabIcon({ name: 'cellmesh:recording', svgstr: panelIcon });

class RecordingFactory extends ABCWidgetFactory<DocumentWidget<GraphPanel>> {
  protected createNewWidget(context: DocumentRegistry.Context): DocumentWidget<GraphPanel> {
    const content = new GraphPanel();
    void show(content, context);
    const widget = new DocumentWidget({ content, context });
    widget.title.icon = icon;
    return widget;
  }
}

async function show(panel: GraphPanel, context: DocumentRegistry.Context): Promise<void> {
  try {
    await context.ready;
    const { fromBase64, readRecording } = await import('../recording/transport');
    const label = context.path.replace(/^.*\//, '');
    const transport = await readRecording(fromBase64(context.model.toString()), label);
    if (panel.isDisposed) {
      return;
    }
    const connection = new Connection(transport);
    panel.state.connect(connection);
    panel.disposed.connect(() => connection.dispose());
    await connection.start();
  } catch (error) {
    panel.state.problem.value = message(error);
  }
}

export const recordingPlugin: JupyterFrontEndPlugin<void> = {
  id: 'cellmesh-labextension:recording',
  description: 'Opens recorded sessions of cellmesh.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    app.docRegistry.addFileType({
      name: FILE_TYPE,
      displayName: __('Recording of cellmesh'),
      extensions: ['.cellmesh'],
      mimeTypes: ['application/vnd.cellmesh.run+zip'],
      contentType: 'file',
      fileFormat: 'base64',
      icon
    });
    app.docRegistry.addWidgetFactory(
      // The cast is needed because the class declares optional members with `undefined` and the registry without.
      new RecordingFactory({
        name: 'cellmesh-recording',
        label: __('Task graph'),
        modelName: 'base64',
        fileTypes: [FILE_TYPE],
        defaultFor: [FILE_TYPE],
        readOnly: true
      }) as DocumentRegistry.WidgetFactory
    );
  }
};
