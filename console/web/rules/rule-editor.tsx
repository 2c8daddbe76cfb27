import { fieldsOf } from '../../../engines/fields.ts'
import { JsonEditor } from '../drafts/json-editor.tsx'
import { readJson, type TextError } from '../drafts/json-text.ts'
import { showText } from '../format.ts'
import { OPERATORS } from '../flags/flag-filters.ts'
import { Table } from '../states.tsx'
import { describeRule, describeTests } from './event-rules.ts'

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
      <JsonEditor label='Condition, actions and tests (JSON)' text={text} onText={onText} error={error} isReadOnly={isReadOnly} />
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
          <div>
            <dt>Tests</dt>
            <dd>
              <code>event</code> (<code>event</code>, <code>distinct_id</code>, <code>properties</code>, <code>ip</code>), <code>matches</code>, and{' '}
              <code>properties</code> afterwards
            </dd>
          </div>
        </dl>
      </details>
    </>
  )
}

interface RuleTestsProps {
  /** The draft. */
  text: string
  /** They were tried as they are here: when the version was stored, or by a check. */
  wereTried: boolean
  /** The one that fails; those before it pass. */
  failing: { index: number, message: string } | undefined
}

/** The tests of the draft with their results. */
export function RuleTests ({ text, wereTried, failing }: RuleTestsProps) {
  const read = readJson(text)
  const tests = read.error === undefined ? describeTests(fieldsOf(read.value).tests) : []
  const resultOf = (index: number): string => {
    if (failing?.index === index) return `fails: ${failing.message}`
    return wereTried || (failing !== undefined && index < failing.index) ? 'passes' : 'not tried yet'
  }
  return (
    <>
      <h2>Tests</h2>
      {tests.length === 0
        ? <p class='hint'>It has none. A rule with tests is refused when it does not do what they say.</p>
        : (
          <>
            <p class='hint'>They are tried when a version is stored, and by a check: a rule that fails one is not stored.</p>
            <Table label='Tests' head={['Test', 'Result', 'The rule', 'Event']}>
              {tests.map(({ name, event, expected }, index) => (
                <tr key={index}>
                  <td class='value'>{showText(name, 100)}</td>
                  <td class={`value ${failing?.index === index ? 'error' : ''}`}>{resultOf(index)}</td>
                  <td class='value'>{showText(expected, 300)}</td>
                  <td class='wide'><code>{showText(event, 300)}</code></td>
                </tr>
              ))}
            </Table>
          </>
          )}
    </>
  )
}
