// panels/: the panel's parts on the page; never JupyterLab.

// The actors in a few lines below the graph.

import { useState } from 'preact/hooks';
import { integer } from '../i18n/format';
import { actorInWords } from '../i18n/states';
import { __, _n } from '../i18n/translate';
import type { TaskGraph } from '../model/graph';
import { groupsOf } from '../model/views/ranks';
import type { ActorLabel } from '../protocol/messages';
import { actorColour, makeTheme } from '../theme/theme';
import type { PanelState } from './shared/state';
import { watch } from './shared/watch';

/** More are counted, not listed. */
const N_ACTORS_MAX = 200;
/** A group of more members is folded up at first. */
const N_MEMBERS_OPEN = 8;

const LIGHT = makeTheme(() => '', false);
const DARK = makeTheme(() => '', true);

export function Actors({ state, graph }: { state: PanelState; graph: TaskGraph }) {
  watch(state.tick);
  const [isOpen, setOpen] = useState(true);
  const actors = [...graph.actors.entries()];
  if (!actors.length) {
    return null;
  }
  const present = actors.filter(([, actor]) => actor.state !== 'dead');
  const ended = actors.filter(([, actor]) => actor.state === 'dead');
  const nAlive = actors.filter(([, actor]) => actor.state === 'alive').length;
  return (
    <details class="cm-actors" open={isOpen} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        {_n('%2 actor', '%2 actors', actors.length)}
        {nAlive !== actors.length && <span class="cm-soft"> · {__('%1 alive', integer(nAlive))}</span>}
      </summary>
      <Members actors={present} state={state} graph={graph} />
      {ended.length > 0 && (
        <details class="cm-ended">
          <summary>{__('%1 ended', integer(ended.length))}</summary>
          <Members actors={ended} state={state} graph={graph} />
        </details>
      )}
    </details>
  );
}

/** Actors, and groups of them with their members inside, in rank order. */
function Members({ actors, state, graph }: ListProps) {
  return (
    <>
      <List actors={actors.filter(([, { group }]) => !group)} state={state} graph={graph} />
      {groupsOf(actors).map(([group, members]) => (
        <details key={group} class="cm-members" open={members.length <= N_MEMBERS_OPEN}>
          <summary>
            {members[0]![1].cls} · {_n('%2 member', '%2 members', members.length)}
          </summary>
          <List actors={members} state={state} graph={graph} />
        </details>
      ))}
    </>
  );
}

interface ListProps {
  actors: [number, ActorLabel][];
  state: PanelState;
  graph: TaskGraph;
}

function List({ actors, state, graph }: ListProps) {
  if (!actors.length) {
    return null;
  }
  return (
    <>
      <ul>
        {actors.slice(0, N_ACTORS_MAX).map(([index, actor]) => {
          const calls = graph.calls.get(index);
          const nOpen = calls ? calls.n - calls.ended : 0;
          return (
            <li key={index}>
              <button
                type="button"
                disabled={!calls}
                title={__('Show the latest call of this %1', actor.cls)}
                onClick={() => calls && state.choose({ kind: 'task', index: calls.last })}
              >
                <i
                  class="cm-hue"
                  style={{ '--cm-hue-light': actorColour(LIGHT, index), '--cm-hue-dark': actorColour(DARK, index) }}
                />
                <span class="cm-actor-name">
                  {actor.group ? __('rank %1', actor.rank) : actor.name || actor.cls}
                  {actor.name && !actor.group && <span class="cm-soft"> {actor.cls}</span>}
                </span>
                <span class="cm-soft">{actor.pid ? __('pid %1', actor.pid) : ''}</span>
                <span class="cm-soft">{calls ? _n('%2 call', '%2 calls', calls.n) : ''}</span>
                <span class={`cm-queue${nOpen ? '' : ' cm-none'}`}>{nOpen ? __('%1 open', integer(nOpen)) : ''}</span>
                <span class={`cm-actor-state cm-actor-${actor.crashed ? 'crashed' : actor.state}`}>
                  {actorInWords(actor)}
                </span>
              </button>
            </li>
          );
        })}
      </ul>
      {actors.length > N_ACTORS_MAX && (
        <p class="cm-soft">{__('and %1 more', integer(actors.length - N_ACTORS_MAX))}</p>
      )}
    </>
  );
}
