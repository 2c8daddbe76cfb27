import { fieldsOf } from '../../../engines/fields.ts'
import { JsonEditor } from '../drafts/json-editor.tsx'
import { readJson, type TextError } from '../drafts/json-text.ts'
import { showText } from '../format.ts'
import { OPERATORS } from '../flags/flag-filters.ts'
import { describeRule } from './event-rules.ts'

interface RuleEditorProps {
  text: string
  onText: (text: string) => void
  error: TextError | undefined
  isReadOnly: boolean
}

/** The draft of a rule, with the sentence that it means. */
export function RuleEditor ({ text, onText, error, isReadOnly }: RuleEditorProps) {
  const read = readJson(text)
  return (
    <>
      <JsonEditor label='Condition and actions (JSON)' text={text} onText={onText} error={error} isReadOnly={isReadOnly} />
      <p role='status' class='sentence'>
        {read.error === undefined ? showText(describeRule(fieldsOf(read.value)), 1000) : 'It is not JSON yet.'}
      </p>
      <details>
        <summary>Which words there are</summary>
        <dl class='facts'>
          <div>
            <dt>Types</dt>
            <dd>
              <code>event</code>, <code>distinct_id</code>, <code>property</code> with <code>key</code>, <code>sdk</code>, <code>sdk_version</code>, <code>ip</code>;{' '}
              <code>AND</code> and <code>OR</code> with <code>values</code>; <code>"negation": true</code> for the opposite
            </dd>
          </div>
          <div><dt>Operators</dt><dd>{Object.keys(OPERATORS).join(', ')}</dd></div>
          <div>
            <dt>Actions</dt>
            <dd>
              <code>drop</code>; <code>sample</code> with <code>rate</code>; <code>remove_property</code> and <code>hash_property</code> with <code>property</code>;{' '}
              <code>set_property</code> with <code>property</code> and <code>value</code>; <code>truncate_ip</code>
            </dd>
          </div>
        </dl>
      </details>
    </>
  )
}
