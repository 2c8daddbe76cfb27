import type { ComponentChildren } from 'preact'
import { isFields } from '../../../engines/fields.ts'
import { showText } from '../format.ts'
import type { ContentDraft } from './content-draft.ts'
import { readJson, writeJson } from './json-text.ts'

/** Fields for the JSON of a draft. What they cannot show stays as it is. */
export type DraftFields = (value: Readonly<Record<string, unknown>>, onChange: (value: object) => void) => ComponentChildren

/** A text field for JSON, which says in which field something is wrong, below the fields that write it. */
export function JsonEditor (
  { label, draft: { text, wrong: error, change }, isReadOnly, fields }: { label: string, draft: ContentDraft, isReadOnly: boolean, fields: DraftFields }
) {
  const read = readJson(text)
  const value = read.error === undefined && isFields(read.value) ? read.value : null
  const id = `error-${label.replaceAll(/\W+/g, '-')}`
  const lines = text.split('\n').length
  return (
    <>
      {!isReadOnly && (value === null
        ? <p class='hint'>The fields reappear once the draft is a JSON object.</p>
        : fields(value, (next) => change(writeJson(next))))}
      <label>
        {label}
        <textarea
          rows={Math.min(28, Math.max(10, lines + 1))} spellcheck={false} readOnly={isReadOnly} value={text}
          aria-invalid={error !== undefined} aria-describedby={error === undefined ? undefined : id}
          onInput={(event) => change(event.currentTarget.value)}
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
