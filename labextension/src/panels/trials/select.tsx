// A choice among names that are not known in advance.

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
