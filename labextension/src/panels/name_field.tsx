// A name to be typed: it has the focus from the start, Escape leaves it, and no key of it reaches the notebook.

import { useEffect, useRef } from 'preact/hooks';

export interface NameFieldProps {
  value: string;
  isValid: boolean;
  /** How much of it is selected at first. */
  selected?: number;
  onInput(value: string): void;
  onLeave(): void;
}

export function NameField({ value, isValid, selected = value.length, onInput, onLeave }: NameFieldProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current!.focus();
    input.current!.setSelectionRange(0, selected);
  }, []);
  return (
    <input
      ref={input}
      value={value}
      spellcheck={false}
      aria-invalid={!isValid}
      onInput={event => onInput(event.currentTarget.value.trim())}
      onKeyDown={event => {
        event.stopPropagation();
        if (event.key === 'Escape') {
          onLeave();
        }
      }}
    />
  );
}
