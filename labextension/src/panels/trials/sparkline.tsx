// A trial's curve in a row of the table.

import { useLayoutEffect, useRef } from 'preact/hooks';
import { drawSparkline } from '../../draw/trial_plots';
import type { Trials } from '../../model/trials';
import type { Axis } from '../../model/views/axis';
import type { Theme } from '../../theme/theme';

const [WIDTH, HEIGHT] = [96, 22];

interface SparklineProps {
  trials: Trials;
  trial: number;
  axis: Axis;
  theme: Theme;
}

export function Sparkline({ trials, trial, axis, theme }: SparklineProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const curve = trials.curves[trial];
  useLayoutEffect(() => {
    const element = canvas.current!;
    const ratio = window.devicePixelRatio || 1;
    element.width = WIDTH * ratio;
    element.height = HEIGHT * ratio;
    const pen = element.getContext('2d')!;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawSparkline(pen, theme, trials, trial, axis, { width: WIDTH, height: HEIGHT });
  }, [curve, trials.state[trial], trial, axis.low, axis.high, axis.isLog, theme]);
  return <canvas ref={canvas} class="cm-sparkline" style={{ width: `${WIDTH}px`, height: `${HEIGHT}px` }} />;
}
