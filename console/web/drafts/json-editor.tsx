import { showText } from '../format.ts'
import type { TextError } from './json-text.ts'

interface JsonEditorProps {
  label: string
  text: string
  onText: (text: string) => void
  error?: TextError | undefined
  isReadOnly?: boolean
}

/** A text field for JSON, which says in which field something is wrong. */
export function JsonEditor ({ label, text, onText, error, isReadOnly = false }: JsonEditorProps) {
  const id = `error-${label.replaceAll(/\W+/g, '-')}`
  const lines = text.split('\n').length
  return (
    <>
      <label>
        {label}
        <textarea
          rows={Math.min(28, Math.max(10, lines + 1))} spellcheck={false} readOnly={isReadOnly} value={text}
          aria-invalid={error !== undefined} aria-describedby={error === undefined ? undefined : id}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      </label>
      {error !== undefined && (
        <p id={id} role='alert' class='error'>
          {error.field !== '' && <><code>{showText(error.field, 120)}</code>: </>}{error.message}
        </p>
      )}
    </>
  )
}
