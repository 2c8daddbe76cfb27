import { useState } from 'preact/hooks'
import { NewDefinition } from '../drafts/definition-screen.tsx'
import { RULE_SCREEN } from './rule-detail.tsx'

const EXAMPLE = {
  condition: { type: 'AND', values: [{ type: 'event', value: 'order paid' }, { type: 'property', key: 'email', operator: 'ends_with', value: '@example.com' }] },
  actions: [{ type: 'drop' }],
  tests: [
    { name: 'ours', event: { event: 'order paid', properties: { email: 'qa@example.com' } }, matches: true },
    { name: 'a customer’s', event: { event: 'order paid', properties: { email: 'ann@example.org' } }, matches: false }
  ]
}

export function NewRule () {
  const [name, setName] = useState('')
  const [description, setDescription] = useState('')
  return (
    <NewDefinition
      screen={RULE_SCREEN} action='Store the rule' example={EXAMPLE} name={name}
      hint='Its tests are tried when it is stored. Storing it enforces nothing: check it by stored events first, then activate it.'
      fields={{ name, description }} isTouched={name !== '' || description !== ''}
      inputs={(
        <div class='stacked'>
          <label>Name, as receipts show it <input required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
          <label>What it is for <input maxLength={3000} value={description} onInput={(event) => setDescription(event.currentTarget.value)} /></label>
        </div>
      )}
    />
  )
}
