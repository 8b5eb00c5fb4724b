// A choice of one among several: as a row of buttons, after the ARIA patterns for tabs and radio groups (Tab stops
// once; the arrow keys, Home and End move and choose), or as a list, of names that are not known in advance.

import { useRef } from 'preact/hooks';
import { __ } from '../../i18n/translate';
import { useCompact } from './compact';
import { Glyph, type GlyphName } from './icons';

export interface Choice<Key extends string> {
  key: Key;
  label: string;
  /** The accessible name if the label alone would be ambiguous; it contains the label. */
  name?: string;
  title?: string;
  /** The icon that replaces the label where there is no room. */
  glyph?: GlyphName;
}

interface ChoicesProps<Key extends string> {
  role: 'tablist' | 'radiogroup';
  label: string;
  class: string;
  items: readonly Choice<Key>[];
  chosen: Key;
  onChoose: (key: Key) => void;
  /** Prefix of the tabs' ids, and the id of what they show. */
  id?: string;
  panel?: string;
}

/** Where a key leads from the choice at `at` of `n`; -1 where it means nothing. */
export function keyLeadsTo(key: string, at: number, n: number): number {
  switch (key) {
    case 'ArrowRight':
    case 'ArrowDown':
      return (at + 1) % n;
    case 'ArrowLeft':
    case 'ArrowUp':
      return (at + n - 1) % n;
    case 'Home':
      return 0;
    case 'End':
      return n - 1;
    default:
      return -1;
  }
}

export function Choices<Key extends string>({
  role,
  label,
  class: name,
  items,
  chosen,
  onChoose,
  id,
  panel
}: ChoicesProps<Key>) {
  const row = useRef<HTMLDivElement>(null);
  const isTabs = role === 'tablist';
  const isCompact = useCompact(
    row,
    items.map(({ label: text }) => text).join('\n'),
    items.some(({ glyph }) => glyph)
  );
  return (
    <div
      ref={row}
      class={isCompact ? `${name} cm-compact` : name}
      role={role}
      aria-label={label}
      onKeyDown={event => {
        const at = items.findIndex(({ key }) => key === chosen);
        const next = event.ctrlKey || event.metaKey || event.altKey ? -1 : keyLeadsTo(event.key, at, items.length);
        if (next >= 0) {
          event.preventDefault();
          event.stopPropagation();
          onChoose(items[next]!.key);
          row.current?.querySelectorAll('button')[next]?.focus();
        }
      }}
    >
      {items.map(({ key, label: text, name: full, title, glyph }) => {
        const isChosen = key === chosen;
        return (
          <button
            type="button"
            key={key}
            id={id && `${id}-${key}`}
            role={isTabs ? 'tab' : 'radio'}
            {...(isTabs ? { 'aria-selected': isChosen, 'aria-controls': panel } : { 'aria-checked': isChosen })}
            aria-label={full ?? (glyph && text)}
            tabIndex={isChosen ? 0 : -1}
            title={title}
            onClick={() => onChoose(key)}
          >
            {glyph && <Glyph name={glyph} />}
            <span>{text}</span>
          </button>
        );
      })}
    </div>
  );
}

interface SelectProps {
  label: string;
  value: string;
  options: readonly { key: string; title: string }[];
  onChange: (key: string) => void;
}

export function Select({ label, value, options, onChange }: SelectProps) {
  return (
    <select
      class="cm-select"
      aria-label={label}
      title={label}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    >
      {options.map(({ key, title }) => (
        <option key={key} value={key}>
          {title}
        </option>
      ))}
    </select>
  );
}

/** Closes what is told of the one that is chosen. */
export function ChooseNone({ onClick }: { onClick: () => void }) {
  const label = __('Choose none');
  return (
    <button type="button" class="cm-quiet" aria-label={label} title={label} onClick={onClick}>
      <Glyph name="close" />
    </button>
  );
}
