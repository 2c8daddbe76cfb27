import { useLayoutEffect, useRef } from 'preact/hooks'

export interface QueryEditorProps {
  value: string
  onInput: (value: string) => void
  onRun: () => void
  /** Where ClickHouse found an error: the word that stands there is selected. */
  errorAt: number | null
}

/** A plain text area, so that keys, undo and search are those of the browser. Ctrl+Enter runs; Tab leaves, as everywhere. */
export function QueryEditor ({ value, onInput, onRun, errorAt }: QueryEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => {
    if (errorAt === null || area.current === null) return
    const { length } = /^\w*/.exec(area.current.value.slice(errorAt))?.[0] ?? ''
    area.current.focus()
    area.current.setSelectionRange(errorAt, errorAt + length)
  }, [errorAt])
  return (
    <textarea
      ref={area} value={value} rows={Math.min(30, Math.max(8, value.split('\n').length + 1))}
      aria-label='Query' spellcheck={false} autocapitalize='off' autocomplete='off' maxLength={100_000}
      aria-invalid={errorAt !== null} aria-describedby='editor-keys'
      onInput={(event) => onInput(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
        event.preventDefault()
        onRun()
      }}
    />
  )
}
