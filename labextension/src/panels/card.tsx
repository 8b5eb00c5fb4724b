// The card: everything about the chosen box, and the actions on it. Results are shown as text, or as HTML inside a
// frame that runs no scripts and loads nothing.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { duration, stopwatch } from '../i18n/format';
import { __, _n } from '../i18n/translate';
import { failedThrough, failureInWords, rootCause } from '../model/failures';
import type { TaskGraph } from '../model/graph';
import { isEnded } from '../model/rows';
import { Kind, State } from '../protocol/messages';
import { describeGroup, detailsOf, rowState, rowTitle } from './shared/describe';
import { Glyph, Mark, ObjectMark } from './shared/icons';
import { NameForm } from './shared/name_form';
import type { Card as CardData, PanelState } from './shared/state';
import { watch } from './shared/watch';

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:";
/** Variables of the style sheet, and the names by which the kernel's cards know them. */
const INHERITED: Record<string, string> = {
  raised: '--jp-layout-color1',
  border: '--jp-border-color2',
  text: '--jp-ui-font-color1',
  'text-soft': '--jp-ui-font-color2',
  font: '--jp-ui-font-family',
  mono: '--jp-code-font-family'
};

/** A page around a card's HTML: no scripts, no requests, the panel's colours. */
export function cardPage(html: string, read: (name: string) => string, isDark: boolean): string {
  const inherited = Object.entries(INHERITED)
    .map(([name, outside]) => [outside, read(`--cm-${name}`).replace(/[<>{};]/g, '')])
    .map(([outside, value]) => `${outside}:${value}`)
    .join(';');
  return (
    `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">` +
    `<style>:root{color-scheme:${isDark ? 'dark' : 'light'};${inherited}}` +
    'html{background:var(--jp-layout-color1)}' +
    'body{margin:0;padding:2px 14px 14px;color:var(--jp-ui-font-color1);' +
    'font:12.5px/1.5 var(--jp-ui-font-family);overflow-wrap:anywhere}' +
    // The panel's own card is the frame, and its head replaces that of the kernel's card.
    '.cellmesh-card{display:block!important;min-width:0!important;max-width:none!important;' +
    'margin:0!important;padding:0!important;border:0!important}' +
    '.cellmesh-card>:first-child{display:none!important}' +
    'table{border-collapse:collapse;font-variant-numeric:tabular-nums}' +
    'th,td{padding:2px 10px 2px 0;text-align:left;vertical-align:top}' +
    'th{color:var(--jp-ui-font-color2);font-weight:500}pre,code{font:11.5px/1.45 var(--jp-code-font-family)}' +
    `pre{white-space:pre-wrap;margin:6px 0}img{max-width:100%}</style><body>${html}`
  );
}

/** Move the focus from the card, which is about to close, to the view that it was opened from. */
export function leaveCard(stage: HTMLElement): void {
  if (stage.querySelector('.cm-card')?.contains(document.activeElement)) {
    stage
      .querySelector<HTMLElement>(
        '.cm-view :is(canvas, .cm-grid, .cm-list[tabindex="0"], .cm-value-box.cm-chosen, .cm-machine)'
      )
      ?.focus();
  }
}

export function Card({ state, graph }: { state: PanelState; graph: TaskGraph }) {
  const picked = state.selection.value;
  const tick = state.tick.value;
  const row = picked?.kind === 'task' && picked.index < graph.n ? picked.index : -1;
  const rowStateNow = row >= 0 ? graph.state[row]! : -1;
  const loadedFor = useRef('');
  useEffect(() => {
    const key = `${row} ${rowStateNow}`;
    if (row >= 0 && loadedFor.current !== key) {
      const isSameRow = loadedFor.current.startsWith(`${row} `);
      loadedFor.current = key;
      if (isSameRow) {
        void state.loadCard(row);
      }
    }
  }, [row, rowStateNow, tick]);
  const isOpen = state.isCardOpen.value;
  useLayoutEffect(() => cover(state), [picked, isOpen, state.canvas.value, state.card.value]);
  if (!picked || !isOpen) {
    return null;
  }
  if (picked.kind === 'group') {
    return picked.index < graph.groups.list.length ? (
      <GroupCard state={state} graph={graph} group={picked.index} />
    ) : null;
  }
  return row >= 0 ? <TaskCard state={state} graph={graph} row={row} /> : null;
}

/** Tell the canvas which part of it the card covers. */
function cover(state: PanelState): void {
  const canvas = state.canvas.peek();
  const stage = canvas?.element.closest('.cm-stage');
  const card = stage?.querySelector('.cm-card');
  if (canvas && stage) {
    const [all, covered] = [stage.getBoundingClientRect(), card?.getBoundingClientRect()];
    const isDocked = covered !== undefined && covered.top >= canvas.element.getBoundingClientRect().bottom - 1;
    if (isDocked) {
      canvas.cover(0, 0);
      return;
    }
    const isBeside = covered !== undefined && covered.width < all.width * 0.6;
    canvas.cover(
      covered && isBeside ? all.right - covered.left : 0,
      covered && !isBeside ? all.bottom - covered.top : 0
    );
  }
}

function TaskCard({ state, graph, row }: { state: PanelState; graph: TaskGraph; row: number }) {
  watch(state.tick); // how long it has been running, and what it failed with
  const connection = state.connection.value;
  const [isNaming, setNaming] = useState(false);
  useEffect(() => setNaming(false), [row]);
  const current = graph.state[row] as State;
  const isObject = graph.kind[row] === Kind.object;
  const cell = graph.cellLabel(row);
  const canReveal = connection?.transport.reveal !== undefined;
  const card = state.card.value;
  const isHeld = card?.row !== row || card.isHeld;
  const isPast = state.moment.value !== null;
  const canAct = !isPast && connection?.transport.isRecording !== true;
  const details = detailsOf(graph, row, graph.time(performance.now()));
  const box = useRef<HTMLElement>(null);
  const leaveForm = () => {
    setNaming(false);
    box.current?.focus(); // so that Escape closes the card next
  };
  return (
    <section ref={box} class="cm-card" tabIndex={-1} aria-label={__('Card of %1', rowTitle(graph, row))}>
      <div class="cm-card-head">
        {isObject ? <ObjectMark /> : <Mark state={current} isHollow={failedThrough(graph, row) >= 0} />}
        <div class="cm-card-title">
          <b>{rowTitle(graph, row)}</b>
          <span>{rowState(graph, row, graph.time(performance.now()))}</span>
        </div>
        <CloseButton state={state} />
      </div>
      <div class="cm-card-details">{details.join('  ·  ')}</div>
      <Failure state={state} graph={graph} row={row} />
      {isPast && <div class="cm-notice">{__('As it was at %1.', stopwatch(graph.now))}</div>}
      <div class="cm-actions">
        {cell && canReveal && (
          <button type="button" disabled={!cell.id} onClick={() => connection.transport.reveal?.(cell.id)}>
            <Glyph name="cell" />
            {cell.label ? __('Go to %1', cell.label) : __('Go to cell')}
          </button>
        )}
        {canAct && !isEnded(current) && !isObject && (
          <button type="button" onClick={() => void state.cancel(row, false)}>
            <Glyph name="stop" />
            {__('Cancel')}
          </button>
        )}
        {canAct && (current === State.failed || current === State.cancelled) && graph.kind[row] === Kind.task && (
          <button type="button" onClick={() => void state.retry(row)}>
            <Glyph name="retry" />
            {__('Retry')}
          </button>
        )}
        {canAct && (current === State.finished || isObject) && graph.kind[row] !== Kind.actor_creation && (
          <button
            type="button"
            aria-expanded={isNaming}
            disabled={!isHeld}
            title={isHeld ? '' : __('Nobody holds the value any more; run its cell again.')}
            onClick={() => setNaming(!isNaming)}
          >
            <Glyph name="fetch" />
            {__('Fetch …')}
          </button>
        )}
      </div>
      {isNaming && isHeld && (
        <NameForm
          label={__('into variable')}
          suggestion={isObject ? 'value' : variableName(graph.name(row))}
          pattern={/^[\p{L}_][\p{L}\p{N}_]*$/u}
          verb={__('Fetch')}
          onName={name => void state.fetch(row, name)}
          onDone={leaveForm}
        />
      )}
      {state.notice.value && (
        <div class="cm-notice" role="status">
          {state.notice.value}
        </div>
      )}
      {!isPast && <CardBody card={state.card.value} look={state.look.value} />}
    </section>
  );
}

/** Why a row failed, in a line, with a link to the cause if that is another row. */
function Failure({ state, graph, row }: { state: PanelState; graph: TaskGraph; row: number }) {
  watch(state.tick);
  const root = rootCause(graph, row);
  const words = failureInWords(graph, row);
  const isSaidBelow =
    root === row && state.moment.value === null && state.card.value?.row === row && state.card.value.html !== '';
  return (
    <>
      {words && !isSaidBelow && <div class="cm-failure">{words}</div>}
      {root >= 0 && root !== row && (
        <div class="cm-failure">
          <button type="button" class="cm-link" onClick={() => state.choose({ kind: 'task', index: root })}>
            {__('Show %1, where it began', rowTitle(graph, root))}
          </button>
        </div>
      )}
    </>
  );
}

function CloseButton({ state }: { state: PanelState }) {
  return (
    <button
      type="button"
      class="cm-quiet"
      aria-label={__('Close the card')}
      title={__('Close (Esc)')}
      onClick={event => {
        leaveCard(event.currentTarget.closest<HTMLElement>('.cm-stage')!);
        state.choose(null);
      }}
    >
      <Glyph name="close" />
    </button>
  );
}

/** A name for a variable that holds a function's result. */
export function variableName(functionName: string): string {
  const name = functionName
    .replace(/[^\p{L}\p{N}_]+/gu, '_')
    .replace(/^_+|_+$/g, '')
    .replace(/^(?=\p{N})/u, '_');
  return name === '' ? 'value' : `${name.toLowerCase()}_result`;
}

/** The heights of a line and of a picture; the frame's content cannot be measured from outside. */
const LINE_PX = 21;
const PICTURE_PX = 170;

/** The approximate height of the card's content; it scrolls if this is too small. */
export function frameHeight(html: string, text: string): number {
  const nLines = text.split('\n').reduce((sum, line) => sum + Math.ceil(Math.max(1, line.length) / 76), 0);
  const nRows = html.split('<tr').length - 1;
  const nPictures = html.split('data:image/').length - 1;
  return Math.min(340, 64 + LINE_PX * Math.max(nLines, 1.25 * nRows + 2) + PICTURE_PX * nPictures);
}

function CardBody({ card, look }: { card: CardData | null; look: number }) {
  const frame = useRef<HTMLIFrameElement>(null);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element && card?.html) {
      const style = getComputedStyle(element);
      const page = cardPage(
        card.html,
        name => style.getPropertyValue(name),
        style.getPropertyValue('--cm-is-dark').trim() === '1'
      );
      if (element.srcdoc !== page) {
        element.srcdoc = page;
      }
    }
  }, [card?.html, look]);
  if (!card) {
    return null;
  }
  if (card.error) {
    return <div class="cm-card-text cm-soft">{card.error}</div>;
  }
  if (card.html) {
    return (
      <iframe
        ref={frame}
        class="cm-frame"
        style={`flex-basis: ${frameHeight(card.html, card.text)}px`}
        sandbox=""
        title={__('Preview of the value')}
        referrerpolicy="no-referrer"
      />
    );
  }
  if (card.text) {
    return <pre class="cm-card-text">{card.text}</pre>;
  }
  return card.isLoading ? <div class="cm-card-text cm-soft cm-loading">{__('Looking …')}</div> : null;
}

function GroupCard({ state, graph, group }: { state: PanelState; graph: TaskGraph; group: number }) {
  const { cell, kind, meanSeconds, seconds } = graph.groups.list[group]!;
  const label = graph.cells.get(cell);
  const canReveal = state.connection.value?.transport.reveal !== undefined;
  const [title, ...lines] = describeGroup(graph, group);
  return (
    <section class="cm-card" aria-label={__('Card of %1', title!)}>
      <div class="cm-card-head">
        {kind === Kind.object && <ObjectMark />}
        <div class="cm-card-title">
          <b>{title}</b>
          <span>{lines[0]}</span>
        </div>
        <CloseButton state={state} />
      </div>
      <div class="cm-card-details">
        {lines.slice(1).join('')}
        {Number.isFinite(meanSeconds) && `  ·  ${__('%1 of work in all', duration(seconds))}`}
      </div>
      <div class="cm-actions">
        <button type="button" onClick={() => state.canvas.value?.expand(group)}>
          <Glyph name="expand" />
          {kind === Kind.object
            ? _n('Show %2 object', 'Show %2 objects', graph.groups.list[group]!.n)
            : _n('Show %2 task', 'Show %2 tasks', graph.groups.list[group]!.n)}
        </button>
        {label && canReveal && (
          <button
            type="button"
            disabled={!label.id}
            onClick={() => state.connection.value?.transport.reveal?.(label.id)}
          >
            <Glyph name="cell" />
            {label.label ? __('Go to %1', label.label) : __('Go to cell')}
          </button>
        )}
      </div>
    </section>
  );
}
