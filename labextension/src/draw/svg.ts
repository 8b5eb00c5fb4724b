// A pen that writes SVG, for saving a picture. It supports the calls that the timeline makes.

import type { Pen } from './pen';

type SvgPen = Pick<
  Pen,
  | 'fillRect'
  | 'strokeRect'
  | 'fillText'
  | 'measureText'
  | 'fillStyle'
  | 'strokeStyle'
  | 'font'
  | 'globalAlpha'
  | 'lineWidth'
  | 'textAlign'
  | 'textBaseline'
>;

/** The approximate width of a letter as a share of the font size, slightly too large. */
const LETTER = 0.56;

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
}

/** Nothing here is drawn with a gradient or a pattern. */
function colour(style: Pen['fillStyle']): string {
  if (typeof style !== 'string') {
    throw new TypeError('only plain colours can be written as SVG');
  }
  return style;
}

/** What `draw` draws, as an SVG document. */
export function svgOf(width: number, height: number, draw: (pen: Pen) => void): string {
  const parts: string[] = [];
  const round = (value: number) => Math.round(value * 100) / 100;
  const size = () => Number(/([\d.]+)px/.exec(pen.font)?.[1] ?? 12);
  const opacity = () => (pen.globalAlpha < 1 ? ` opacity="${pen.globalAlpha}"` : '');
  const rect = (x: number, y: number, w: number, h: number) =>
    `<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}"${opacity()}`;
  const pen: SvgPen = {
    fillStyle: '#000',
    strokeStyle: '#000',
    font: '12px sans-serif',
    globalAlpha: 1,
    lineWidth: 1,
    textAlign: 'left',
    textBaseline: 'alphabetic',
    fillRect: (x, y, w, h) => void parts.push(`${rect(x, y, w, h)} fill="${colour(pen.fillStyle)}"/>`),
    strokeRect: (x, y, w, h) =>
      void parts.push(
        `${rect(x, y, w, h)} fill="none" stroke="${colour(pen.strokeStyle)}" stroke-width="${pen.lineWidth}"/>`
      ),
    fillText(text, x, y) {
      const [, weight = '400', family = 'sans-serif'] = /^(\d+) [\d.]+px (.*)$/.exec(pen.font) ?? [];
      const baseline = pen.textBaseline === 'middle' ? ' dominant-baseline="central"' : '';
      parts.push(
        `<text x="${round(x)}" y="${round(y)}" font-size="${size()}" font-weight="${weight}" ` +
          `font-family="${escaped(family)}"${baseline}${opacity()} ` +
          `fill="${colour(pen.fillStyle)}">${escaped(text)}</text>`
      );
    },
    measureText: text => ({ width: text.length * size() * LETTER }) as TextMetrics
  };
  draw(pen as Pen);
  const box = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${box}>${parts.join('')}</svg>`;
}
