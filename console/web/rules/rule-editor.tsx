import { fieldsOf, isFields } from '../../../engines/fields.ts'
import type { ContentDraft } from '../frame/content-draft.ts'
import { JsonEditor } from '../frame/json-editor.tsx'
import { readJson, readJsonOrText } from '../frame/json-text.ts'
import { Parts } from '../frame/parts.tsx'
import { ComparisonFields, JsonField } from '../flags/filter-editor.tsx'
import { showText } from '../format.ts'
import { NameLists, type Names, PropertyField, useNames } from '../questions/event-fields.tsx'
import { Checkbox, NumberField, Select } from '../states.tsx'
import { describeCondition, describeRule } from './event-rules.ts'

/** The draft of a rule, with the sentence that it means. */
export function RuleEditor ({ draft, isReadOnly }: { draft: ContentDraft, isReadOnly: boolean }) {
  const read = readJson(draft.text)
  return (
    <>
      <JsonEditor
        label='Condition and actions (JSON)' draft={draft} isReadOnly={isReadOnly}
        fields={(rule, onChange) => <RuleFields rule={rule} onChange={onChange} />}
      />
      <p role='status' class='sentence'>
        {read.error === undefined ? showText(describeRule(fieldsOf(read.value)), 1000) : 'Not valid JSON yet.'}
      </p>
    </>
  )
}

type Fields = Readonly<Record<string, unknown>>

interface PartProps { of: Fields, names: Names, onChange: (of: object) => void }

const MOST = 20

/** For which events a rule is, and what it does with them. */
function RuleFields ({ rule, onChange }: { rule: Fields, onChange: (rule: object) => void }) {
  const names = useNames('events', 'properties')
  const group = toGroup(rule['condition'])
  const actions: readonly unknown[] = Array.isArray(rule['actions']) ? rule['actions'] : []
  const write = (next: Partial<Group>): void => onChange({ ...rule, condition: fromGroup({ ...group, ...next }) })
  return (
    <>
      {group.values.length === 0 && <p class='hint'>Without a condition the rule applies to every event.</p>}
      {(group.values.length > 1 || group.negation === true) && (
        <Select
          label='When' value={`${group.negation === true ? 'not ' : ''}${group.type}`}
          options={[['AND', 'all of these hold'], ['OR', 'one of these holds'], ['not AND', 'not all of these hold'], ['not OR', 'none of these holds']]}
          onChange={(value) => write({ type: value.endsWith('OR') ? 'OR' : 'AND', negation: value.startsWith('not') })}
        />
      )}
      <Parts
        of={group.values} most={MOST} what='condition' blank={{ type: 'event', operator: 'exact', value: '' }}
        onChange={(values) => write({ values })}
      >
        {(value, _, set) => isFields(value) && !('values' in value)
          ? <ConditionFields of={value} names={names} onChange={set} />
          : <p>{showText(describeCondition(value), 300)} <span class='hint'>Edit it in the JSON.</span></p>}
      </Parts>
      <Parts of={actions} most={MOST} least={1} what='step' blank={{ type: 'drop' }} onChange={(next) => onChange({ ...rule, actions: next })}>
        {(action, _, set) => <ActionFields of={fieldsOf(action)} names={names} onChange={set} />}
      </Parts>
      <NameLists names={names} />
    </>
  )
}

const SUBJECTS = [['event', 'name of the event'], ['property', 'property'], ['distinct_id', 'distinct id'], ['sdk', 'SDK'], ['sdk_version', 'version of the SDK'], ['ip', 'address']] as const

function ConditionFields ({ of, names, onChange }: PartProps) {
  const { type, key, value, negation } = of
  const choose = (next: string): void =>
    onChange({ type: next, ...next === 'property' && { key: '' }, ...next !== 'ip' && { operator: 'exact' }, value: '' })
  return (
    <div class='toolbar'>
      <Select label='-What' value={String(type)} options={SUBJECTS} onChange={choose} />
      {type === 'property' && <PropertyField label='-Property' value={String(key ?? '')} names={names} onChange={(next) => onChange({ ...of, key: next })} />}
      {type === 'ip'
        ? <JsonField label='Address or range, or a JSON list of them' value={value} onChange={(next) => onChange({ ...of, value: next })} />
        : <ComparisonFields of={of} list={type === 'event' ? 'event-names' : undefined} onChange={onChange} />}
      <Checkbox label='not' isOn={negation === true} onChange={(isOn) => onChange(negate(of, isOn))} />
    </div>
  )
}

const ACTIONS = [
  ['drop', 'drop it'], ['sample', 'store a sample'], ['remove_property', 'remove a property'], ['hash_property', 'hash a property'],
  ['set_property', 'set a property'], ['truncate_ip', 'cut the address to the network']
] as const

function ActionFields ({ of, names, onChange }: PartProps) {
  const { type, property, rate } = of
  const choose = (next: string): void => onChange({
    type: next, ...next === 'sample' && { rate: 0.1 }, ...next.endsWith('property') && { property: property ?? '' }, ...next === 'set_property' && { value: '' }
  })
  return (
    <div class='toolbar'>
      <Select label='Then' value={String(type)} options={ACTIONS} onChange={choose} />
      {type === 'sample' && (
        <NumberField
          label='of' least={0} most={100} value={Number((Number(rate) * 100).toPrecision(6))}
          onChange={(percent) => onChange({ ...of, rate: Number((percent / 100).toPrecision(6)) })}
        > % of all distinct ids
        </NumberField>
      )}
      {String(type).endsWith('property') && <PropertyField label='-Property' value={String(property ?? '')} names={names} onChange={(next) => onChange({ ...of, property: next })} />}
      {type === 'set_property' && <JsonField label='To: text, or JSON' value={of['value']} read={readJsonOrText} onChange={(next) => onChange({ ...of, value: next })} />}
    </div>
  )
}

interface Group { type: 'AND' | 'OR', negation?: boolean, values: readonly unknown[] }

function toGroup (condition: unknown): Group {
  if (condition == null) return { type: 'AND', values: [] }
  const { type, values, negation } = fieldsOf(condition)
  return Array.isArray(values) ? { type: type === 'OR' ? 'OR' : 'AND', negation: negation === true, values } : { type: 'AND', values: [condition] }
}

/** The same as short as it can be written. */
function fromGroup ({ type, negation = false, values }: Group): unknown {
  if (values.length === 0) return null
  return values.length === 1 && !negation ? values[0] : negate({ type, values }, negation)
}

function negate (of: object, isOn: boolean): object {
  const { negation: _, ...others }: Fields = { ...of }
  return isOn ? { ...others, negation: true } : others
}
