import { describe, expect, test } from 'vitest';
import { mapReduce, parameterServer, quickstart } from '../../../dev/trace';
import { bucketColour, drawGroups, failedShare } from '../../draw/groups';
import { drawMark } from '../../draw/marks';
import { ellipsis, shortName } from '../../draw/pen';
import { makeImage, rasterTasks } from '../../draw/raster';
import type { Scene } from '../../draw/scene';
import { drawTasks } from '../../draw/tasks';
import { GroupArrangement, TaskArrangement } from '../../layout/arrange';
import { fit } from '../../layout/camera';
import type { LayeredLayout } from '../../layout/layered';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { N_STATES, State } from '../../protocol/messages';
import { makeTheme, mix, rgba } from '../../theme/theme';
import { message, play, recorder } from '../helpers';

const view = { width: 500, height: 700 };
const theme = makeTheme(() => '', false);

function sceneOf(graph: TaskGraph, layout: LayeredLayout): Scene {
  return {
    graph,
    layout,
    starts: layout.starts(),
    shift: null,
    camera: fit(layout.bounds(), view, 20),
    view,
    theme,
    now: graph.now,
    clockMs: 1e9,
    isMoving: false,
    hovered: -1,
    selected: -1,
    lit: null
  };
}

function tasksOf(graph: TaskGraph): { scene: Scene; rows: number[] } {
  const arrangement = new TaskArrangement(graph);
  arrangement.update('down');
  return { scene: sceneOf(graph, arrangement.layout), rows: [...Array(graph.n).keys()] };
}

function texts(commands: readonly string[]): string[] {
  return commands
    .filter(command => command.startsWith('fillText'))
    .map(command => command.split(' ').slice(1, -2).join(' '));
}

describe('boxes', () => {
  const graph = new TaskGraph();
  play(graph, quickstart(), 1.3);
  const { scene, rows } = tasksOf(graph);

  test('carry names, times and cells', () => {
    const { pen, commands } = recorder();
    drawTasks(pen, scene, rows);
    const shown = texts(commands).map(text => text.replace(/\u00a0/g, ' '));
    expect(shown).toEqual(expect.arrayContaining(['simulate', 'combine', 'put', '8 MB', '500 ms', 'In [3]', 'In [5]']));
  });

  test('are drawn the same as ever', () => {
    const { pen, commands } = recorder();
    drawTasks(pen, scene, rows);
    expect(commands.join('\n')).toMatchSnapshot();
  });

  test('that are not lit step back', () => {
    const { pen, commands } = recorder();
    drawTasks(pen, { ...scene, lit: row => row === 0 }, rows);
    expect(commands.filter(command => command === 'globalAlpha = 0.2').length).toBeGreaterThan(0);
  });

  test('have no names when they are small', () => {
    const { pen, commands } = recorder();
    drawTasks(pen, { ...scene, camera: { ...scene.camera, zoom: 0.2 } }, rows);
    expect(texts(commands)).toEqual([]);
  });

  test('leave the pen as it was', () => {
    for (const zoom of [1, 0.3]) {
      const { pen, commands } = recorder();
      drawTasks(pen, { ...scene, camera: { ...scene.camera, zoom }, hovered: 1, selected: 2 }, rows);
      expect(commands.filter(command => command === 'save').length).toBe(
        commands.filter(command => command === 'restore').length
      );
      expect(pen.globalAlpha).toBe(1);
    }
  });
});

test('actors’ calls lie in lanes of their own colour', () => {
  const graph = new TaskGraph();
  play(graph, parameterServer(4, 3));
  const { scene, rows } = tasksOf(graph);
  const { pen, commands } = recorder();
  drawTasks(pen, scene, rows);
  expect(commands).toContain(`strokeStyle = ${theme.actors[0]}`);
  expect(commands).toContain(`strokeStyle = ${theme.actors[3]}`);
});

test('every state has a sign of its own shape', () => {
  const shapes = Object.values(State).map(state => {
    const { pen, commands } = recorder();
    drawMark(pen, theme, state, 0, 0, 8, 0.1);
    return commands.filter(command => !command.includes('Style')).join(';');
  });
  expect(new Set(shapes).size).toBe(N_STATES);
});

describe('groups', () => {
  const graph = new TaskGraph();
  play(graph, mapReduce(500, 0.05, 8), 3);
  const arrangement = new GroupArrangement(graph);
  arrangement.update('down');

  test('say what they are and how far', () => {
    const { pen, commands } = recorder();
    drawGroups(pen, sceneOf(graph, arrangement.layout), [...Array(arrangement.layout.n).keys()]);
    const shown = texts(commands);
    expect(shown).toEqual(expect.arrayContaining(['tokenize', 'count_words', 'merge', 'In [11]']));
    expect(shown.some(text => text.endsWith('%'))).toBe(true);
    expect(pen.globalAlpha).toBe(1);
  });

  test('of one task took what it took', () => {
    const lonely = new TaskGraph();
    apply(
      lonely,
      message('snapshot', {
        rows: [{ fn: 1 }],
        updates: [{ row: 0, state: State.finished, worker: 1, started: 1, finished: 3 }]
      }),
      0
    );
    const single = new GroupArrangement(lonely);
    single.update('down');
    const { pen, commands } = recorder();
    drawGroups(pen, sceneOf(lonely, single.layout), [0]);
    expect(texts(commands).find(text => text.startsWith('1 task'))).toMatch(/^1 task\s+·\s+2\.0\ss$/);
  });

  test('never hide a failure, and never make it look like all', () => {
    const counts = new Uint32Array(N_STATES);
    counts[State.finished] = 999;
    expect(failedShare(counts, 0)).toBe(0);
    counts[State.failed] = 1;
    expect(failedShare(counts, 0)).toBe(0.3);
    expect(bucketColour(theme, counts, 0)).toBe(theme.states[State.finished]!.solid);
    counts[State.failed] = 999;
    expect(failedShare(counts, 0)).toBe(0.5);
  });
});

describe('the overview image', () => {
  const graph = new TaskGraph();
  play(graph, mapReduce(6000, 0.01, 32), 2.8);
  const { scene } = tasksOf(graph);

  test('shows every state that there is', () => {
    const image = makeImage(view.width, view.height);
    rasterTasks(image, scene, 1);
    const colours = new Set(image.pixels);
    for (const state of [State.running, State.failed, State.waiting]) {
      expect(colours).toContain(rgba(theme.states[state]!.solid));
    }
    expect(colours).toContain(rgba(theme.finishedCalm));
  });

  test('keeps to its edges, wherever the camera is', () => {
    const image = makeImage(60, 40);
    for (const camera of [
      { x: -1e5, y: 0, zoom: 1 },
      { x: 200, y: 300, zoom: 2 },
      { x: 0, y: 0, zoom: 1e-5 }
    ]) {
      expect(() => rasterTasks(image, { ...scene, camera }, 1.5)).not.toThrow();
    }
  });
});

test('long texts end in an ellipsis that fits', () => {
  const { pen } = recorder();
  expect(ellipsis(pen, 'preprocess_everything', 60)).toBe('preproces…');
  expect(ellipsis(pen, 'add', 60)).toBe('add');
  expect(ellipsis(pen, 'abcdefghijklmnop', 2)).toBe('');
});

test('colours mix', () => {
  expect(mix('#000000', '#ffffff', 0.5)).toBe('#808080');
  expect(rgba('#010203')).toBe(0xff030201);
});

test('a name that is too long keeps its method', () => {
  const { pen } = recorder();
  expect(shortName(pen, 'ParameterServer.apply', 80)).toBe('Parame….apply');
  expect(shortName(pen, 'ParameterServer.apply', 36)).toBe('apply');
  expect(shortName(pen, 'short.name', 200)).toBe('short.name');
});
