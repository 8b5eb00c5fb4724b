// machine/: the view of the machines' load; never another view.

// The machines' load over time. Loaded when first opened.

import { useMemo, useRef } from 'preact/hooks';
import { integer, short, size } from '../../i18n/format';
import { __, _n } from '../../i18n/translate';
import type { TaskGraph } from '../../model/graph';
import { isMachine, loads, machinesOf, machineState, underWay } from '../../model/machines';
import { momentAt, placeOf, stretchesOf } from '../../model/stretches';
import { curveOf } from '../../model/views/curves';
import type { NodeLabel, Sample } from '../../protocol/messages';
import { makeTheme, nodeColour } from '../../theme/theme';
import { Marked } from '../shared/marked';
import { useScroll } from '../shared/scroll';
import type { ViewProps } from '../shared/state';
import { watch } from '../shared/watch';

const HEIGHT = 64;
const MARGIN = 32;

interface Measure {
  key: string;
  title: string;
  hint: string;
  top: number;
  value: (sample: Sample) => number;
  /** A second curve in the same box. */
  taken?: (sample: Sample) => number;
  show: (sample: Sample) => string;
  /** The value at the upper edge, if that is not the machine's total. */
  scale?: string;
}

function measuresOf(node: NodeLabel, samples: readonly Sample[]): Measure[] {
  const disk = Math.max(0, ...samples.map(sample => sample.disk));
  const store = Math.min(node.store, 1.15 * Math.max(1, ...samples.map(sample => sample.store)));
  if (!isMachine(node)) {
    return [
      {
        key: 'cpu',
        title: __('CPU'),
        hint: __('CPUs that tasks had taken'),
        top: node.cpus,
        value: ({ cpus }) => cpus,
        show: ({ cpus }) => __('tasks have %1 of %2', short(cpus), short(node.cpus))
      }
    ];
  }
  return [
    {
      key: 'cpu',
      title: __('CPU'),
      hint: __(
        'Share of all processors in use, by any program; the line: what tasks had taken of %1 CPUs',
        short(node.cpus)
      ),
      top: 1,
      value: ({ load }) => load,
      taken: ({ cpus }) => (node.cpus ? cpus / node.cpus : 0),
      show: ({ load, cpus }) =>
        __('%1 % busy, tasks have %2 of %3', Math.round(100 * load), short(cpus), short(node.cpus))
    },
    ...(node.gpus
      ? [
          {
            key: 'gpu',
            title: __('GPU'),
            hint: __('GPUs that tasks had taken'),
            top: node.gpus,
            value: ({ gpus }: Sample) => gpus,
            show: ({ gpus }: Sample) => __('tasks have %1 of %2', short(gpus), short(node.gpus))
          }
        ]
      : []),
    {
      key: 'memory',
      title: __('Memory'),
      hint: __('What all processes of the machine use, values included'),
      top: node.memory,
      value: ({ memory }) => memory,
      show: ({ memory }) => __('%1 of %2', size(memory), size(node.memory))
    },
    {
      key: 'store',
      title: __('Store'),
      hint: __('Memory that values take'),
      top: store,
      value: sample => sample.store,
      show: sample => __('%1 of %2', size(sample.store), size(node.store)),
      scale: `↑ ${size(store)}`
    },
    ...(disk
      ? [
          {
            key: 'disk',
            title: __('On disk'),
            hint: __('Values for which memory had no room'),
            top: disk,
            value: (sample: Sample) => sample.disk,
            show: (sample: Sample) => size(sample.disk)
          }
        ]
      : [])
  ];
}

/** A table of the machines: what they are, how full they are, and their work for this session. */
function Machines({ graph, at, colour }: { graph: TaskGraph; at: number; colour: (node: number) => string }) {
  return (
    <ul class="cm-machines">
      {machinesOf(graph, at).map(facts => {
        const { node, label, running, sent, lost, came, went, travelling, now } = facts;
        const isLost = label.state === 'dead';
        const work = [
          running && _n('%2 task runs', '%2 tasks run', running),
          sent && __('%1 sent there', integer(sent)),
          now?.queued && __('%1 wait there', integer(now.queued)),
          lost && _n('%2 attempt was lost', '%2 attempts were lost', lost)
        ].filter(Boolean);
        return (
          <li key={node} class={isLost ? 'cm-lost' : ''} style={{ borderInlineStartColor: colour(node) }}>
            <div class="cm-machine-name">
              <b>{label.name}</b>
              <span class={`cm-machine-state cm-is-${label.state} cm-line-${label.line}`}>{machineState(facts)}</span>
            </div>
            <div class="cm-machine-loads">
              {loads(facts).map(({ key, title, share, brief, words }) => (
                <span
                  key={key}
                  class={`cm-load cm-curve-${key}`}
                  title={words}
                  role="img"
                  aria-label={`${title}: ${words}`}
                >
                  <i>
                    {title}
                    <span>{brief}</span>
                  </i>
                  {!Number.isNaN(share) && (
                    <span class="cm-load-bar">
                      <span style={{ width: `${100 * (isLost ? 0 : share)}%` }} />
                    </span>
                  )}
                </span>
              ))}
            </div>
            <div class="cm-machine-work">
              <span>{work.length ? work.join('  ·  ') : isLost ? '' : __('nothing to do')}</span>
              <span title={__('Values that came to this machine, and that went from it')}>
                ↓ {size(came) || '0'} ↑ {size(went) || '0'}
                {travelling > 0 && ` · ${__('%1 under way', integer(travelling))}`}
              </span>
            </div>
            {label.window > 0 && (
              <div class="cm-machine-work">
                {!isLost && <span>{underWay(facts)}</span>}
                <span>{[label.address, label.dashboard].filter(Boolean).join('  ·  ')}</span>
              </div>
            )}
          </li>
        );
      })}
    </ul>
  );
}

export function Machine({ state, graph }: ViewProps) {
  watch(state.tick);
  const live = state.connection.value?.graph ?? graph;
  const box = useRef<HTMLDivElement>(null);
  const width = Math.max(80, useScroll(box).width - MARGIN);
  const { samples } = live;
  const latest = samples[samples.length - 1];
  const stretches = useMemo(() => stretchesOf(live, live.time(performance.now())), [live, latest?.at, live.epoch]);
  const moment = state.moment.value;
  const isDark = useMemo(
    () => !!box.current && getComputedStyle(box.current).getPropertyValue('--cm-is-dark').trim() === '1',
    [state.look.value, width]
  );
  const theme = useMemo(() => makeTheme(() => '', isDark), [isDark]);
  const marked = state.brush.value?.map(at => width * placeOf(stretches, at)) as [number, number] | undefined;
  return (
    <div class="cm-tables cm-machine" ref={box} tabIndex={0} aria-label={__('Machines')}>
      <Marked state={state} />
      {live.isClustered && (
        <Machines graph={live} at={moment ?? live.time(performance.now())} colour={node => nodeColour(theme, node)} />
      )}
      {[...live.nodes]
        .sort(([a], [b]) => a - b)
        .map(([number, node]) => {
          const own = samples.filter(sample => sample.node === number);
          const now = moment === null ? own[own.length - 1] : live.resourcesAt(moment, number);
          if (!own.length && live.isClustered) {
            return null;
          }
          return (
            <section key={number}>
              <h3>
                {node.name}
                <span class="cm-soft">
                  {isMachine(node)
                    ? __('%1 CPUs, %2 of memory', short(node.cpus), size(node.memory))
                    : _n('%2 CPU', '%2 CPUs', node.cpus)}
                </span>
              </h3>
              {measuresOf(node, own).map(measure => {
                const { line, area } = curveOf(own, stretches, measure.value, measure.top, width, HEIGHT);
                return (
                  <figure key={measure.key} class={`cm-curve cm-curve-${measure.key}`} title={measure.hint}>
                    <figcaption>
                      <b>{measure.title}</b>
                      <span>{now ? measure.show(now) : ''}</span>
                      {measure.scale && <span class="cm-scale">{measure.scale}</span>}
                    </figcaption>
                    <svg
                      width={width}
                      height={HEIGHT}
                      role="img"
                      aria-label={`${measure.title}: ${now ? measure.show(now) : ''}`}
                      onClick={event => state.goTo(momentAt(stretches, event.offsetX / width))}
                    >
                      <path class="cm-curve-base" d={`M0,${HEIGHT - 0.5} H${width}`} />
                      {stretches.slice(1).map(({ start }) => (
                        <path
                          key={start}
                          class="cm-curve-base cm-dashed"
                          d={`M${(start * width).toFixed(1)},0 V${HEIGHT}`}
                        />
                      ))}
                      {marked && (
                        <rect
                          class="cm-curve-marked"
                          x={marked[0]}
                          width={Math.max(1, marked[1] - marked[0])}
                          height={HEIGHT}
                        />
                      )}
                      <path class="cm-curve-area" d={area} />
                      <path class="cm-curve-line" d={line} />
                      {measure.taken && (
                        <path
                          class="cm-curve-taken"
                          d={curveOf(own, stretches, measure.taken, measure.top, width, HEIGHT).line}
                        />
                      )}
                      {moment !== null && (
                        <path
                          class="cm-curve-moment"
                          d={`M${(placeOf(stretches, moment) * width).toFixed(1)},0 V${HEIGHT}`}
                        />
                      )}
                    </svg>
                  </figure>
                );
              })}
            </section>
          );
        })}
      {!live.nodes.size && (
        <p class="cm-empty cm-soft">{__('Nothing has been noted yet: the machine is looked at while tasks run.')}</p>
      )}
    </div>
  );
}
