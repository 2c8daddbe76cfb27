import { useState } from 'preact/hooks'
import { useAttempt } from '../confirm.tsx'
import { writeJson } from '../drafts/json-text.ts'
import { useUnsaved } from '../drafts/unsaved.tsx'
import { linkTo, navigate, projectId } from '../router.ts'
import { Failed } from '../states.tsx'
import { isOfContent } from './event-rules.ts'
import { RuleEditor } from './rule-editor.tsx'
import { createRule } from './rule-requests.ts'
import { useRuleDraft } from './rule-draft.ts'

const EXAMPLE = {
  condition: { type: 'AND', values: [{ type: 'event', value: 'order paid' }, { type: 'property', key: 'email', operator: 'ends_with', value: '@example.com' }] },
  actions: [{ type: 'drop' }],
  tests: [
    { name: 'ours', event: { event: 'order paid', properties: { email: 'qa@example.com' } }, matches: true },
    { name: 'a customer’s', event: { event: 'order paid', properties: { email: 'ann@example.org' } }, matches: false }
  ]
}

/** A rule with its first version. It is not enforced by being stored. */
export function NewRule () {
  const [name, setName] = useState('')
  const [description, setDescription] = useState('')
  const draft = useRuleDraft(writeJson(EXAMPLE))
  const { isBusy, error, attempt } = useAttempt()
  useUnsaved(name !== '' || description !== '' || draft.text !== writeJson(EXAMPLE))
  const create = async (): Promise<void> => {
    const content = draft.read()
    if (content === undefined) return
    await attempt(async () => {
      const rule = await draft.explain(async () => await createRule({ name, description, ...content }))
      if (rule !== undefined) navigate(`/projects/${projectId.value}/rules/${rule.id}`)
    })
  }
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/rules`)}>Rules</a></p>
      <h1>New rule</h1>
      <p class='hint'>Its tests are tried when it is stored. Storing it enforces nothing: check it by stored events first, then activate it.</p>
      <form
        class='schema-form'
        onSubmit={(event) => {
          event.preventDefault()
          if (!isBusy) void create()
        }}
      >
        <div class='stacked'>
          <label>Name, as receipts show it <input required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
          <label>What it is for <input maxLength={3000} value={description} onInput={(event) => setDescription(event.currentTarget.value)} /></label>
        </div>
        <RuleEditor text={draft.text} onText={draft.change} error={draft.wrong} isReadOnly={false} />
        {error !== undefined && !isOfContent(error.attr) && <Failed error={error} onRetry={() => { void create() }} />}
        <p class='actions'><button type='submit' class='primary' disabled={isBusy}>Store the rule</button></p>
      </form>
    </section>
  )
}
