// Installs the style sheets, which are part of the bundle, so that panel and widget need no second file.

import boxes from '../../../style/boxes.css';
import fit from '../../../style/fit.css';
import learning from '../../../style/learning.css';
import panel from '../../../style/panel.css';
import trials from '../../../style/trials.css';
import views from '../../../style/views.css';

const ID = 'cellmesh-style';

/** Put the style sheet into the document or shadow tree that holds the element, once. */
export function installStyles(inside: Node): void {
  const root = inside.getRootNode();
  const home = root instanceof ShadowRoot ? root : document.head;
  if (!home.querySelector(`#${ID}`)) {
    const style = document.createElement('style');
    style.id = ID;
    style.textContent = [panel, boxes, views, trials, learning, fit].join('');
    home.append(style);
  }
}
