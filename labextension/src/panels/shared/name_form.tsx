// A form that asks for a name. The field has the focus from the start, Escape leaves it, and no key reaches the
// notebook.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface NameFormProps {
  label: string;
  hint?: string;
  suggestion: string;
  /** How much of it is selected at first. */
  selected?: number;
  /** What a name must be. */
  pattern: RegExp;
  /** What the button says. */
  verb: string;
  onName: (name: string) => void;
  onDone: () => void;
  /** What stands between the field and the button. */
  children?: (name: string, setName: (name: string) => void) => ComponentChildren;
}

export function NameForm({
  label,
  hint,
  suggestion,
  selected = suggestion.length,
  pattern,
  verb,
  onName,
  onDone,
  children
}: NameFormProps) {
  const [name, setName] = useState(suggestion);
  const input = useRef<HTMLInputElement>(null);
  const isName = pattern.test(name);
  useEffect(() => {
    input.current!.focus();
    input.current!.setSelectionRange(0, selected);
  }, []);
  return (
    <form
      class="cm-fetch"
      onSubmit={event => {
        event.preventDefault();
        if (isName) {
          onDone();
          onName(name);
        }
      }}
    >
      <label title={hint}>
        {label}{' '}
        <input
          ref={input}
          class="cm-field"
          value={name}
          spellcheck={false}
          aria-invalid={!isName}
          onInput={event => setName(event.currentTarget.value.trim())}
          onKeyDown={event => {
            event.stopPropagation();
            if (event.key === 'Escape') {
              onDone();
            }
          }}
        />
      </label>
      {children?.(name, setName)}
      <button type="submit" class="cm-primary" disabled={!isName}>
        {verb}
      </button>
    </form>
  );
}
