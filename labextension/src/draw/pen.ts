// The part of a canvas context that drawing uses. Tests draw to a recorder with the same interface.

export type Pen = Pick<
  CanvasRenderingContext2D,
  | 'arc'
  | 'beginPath'
  | 'bezierCurveTo'
  | 'clearRect'
  | 'closePath'
  | 'fill'
  | 'fillRect'
  | 'fillText'
  | 'lineTo'
  | 'measureText'
  | 'moveTo'
  | 'restore'
  | 'roundRect'
  | 'save'
  | 'setLineDash'
  | 'setTransform'
  | 'stroke'
  | 'strokeRect'
  | 'translate'
  | 'scale'
> & {
  fillStyle: string | CanvasGradient | CanvasPattern;
  strokeStyle: string | CanvasGradient | CanvasPattern;
  font: string;
  globalAlpha: number;
  lineCap: CanvasLineCap;
  lineJoin: CanvasLineJoin;
  lineWidth: number;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
};

/** No letter is wider at the sizes used here. */
const WIDEST_PX = 14;
const shortened = new Map<string, string>();
const N_SHORTENED_MAX = 4000;

/** A function's name, cut so that its last part stays: the method's name says more than the class's. */
export function shortName(pen: Pen, name: string, width: number): string {
  const dot = name.lastIndexOf('.');
  if (dot < 0 || pen.measureText(name).width <= width) {
    return ellipsis(pen, name, width);
  }
  const method = name.slice(dot);
  const before = ellipsis(pen, name.slice(0, dot), width - pen.measureText(method).width);
  return before ? before + method : ellipsis(pen, method.slice(1), width);
}

/** The text, cut with an ellipsis where it would be wider than `width`; the pen's font must be set. */
export function ellipsis(pen: Pen, text: string, width: number): string {
  if (text.length * WIDEST_PX < width) {
    return text;
  }
  const key = `${pen.font}\n${Math.round(width)}\n${text}`;
  const known = shortened.get(key);
  if (known !== undefined) {
    return known;
  }
  let fitting = text;
  if (pen.measureText(text).width > width) {
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    fitting = low > 0 ? `${text.slice(0, low).trimEnd()}…` : '';
  }
  if (shortened.size > N_SHORTENED_MAX) {
    shortened.clear();
  }
  shortened.set(key, fitting);
  return fitting;
}
