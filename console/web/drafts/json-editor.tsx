import { useRef } from 'preact/hooks'
import { showText } from '../format.ts'
import { lineOf, type TextError } from './json-text.ts'

interface JsonEditorProps {
  label: string
  text: string
  onText: (text: string) => void
  error?: TextError | undefined
  isReadOnly?: boolean
}

/** A text field for JSON, which says in which line and field something is wrong, and leads there. */
export function JsonEditor ({ label, text, onText, error, isReadOnly = false }: JsonEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null)
  const id = `error-${label.replaceAll(/\W+/g, '-')}`
  const lines = text.split('\n').length
  const show = (): void => {
    if (area.current === null || error?.range === undefined) return
    const { from, to } = error.range
    // A browser scrolls to the place when the field gets the focus.
    area.current.blur()
    area.current.setSelectionRange(from, to)
    area.current.focus()
  }
  return (
    <>
      <label>
        {label}
        <textarea
          ref={area} rows={Math.min(28, Math.max(10, lines + 1))} spellcheck={false} readOnly={isReadOnly} value={text}
          aria-invalid={error !== undefined} aria-describedby={error === undefined ? undefined : id}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      </label>
      {error !== undefined && (
        <p id={id} role='alert' class='error'>
          {error.path.length > 0 && <><code>{showText(error.path.join(' › '), 120)}</code>: </>}{error.message}{' '}
          {error.range !== undefined && <button type='button' onClick={show}>Go to line {lineOf(text, error.range.from)}</button>}
        </p>
      )}
    </>
  )
}
