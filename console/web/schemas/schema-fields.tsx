import { useState } from 'preact/hooks'
import { fieldsOf, isFields } from '../../../engines/fields.ts'
import type { Fields } from '../frame/json-text.ts'
import { showText } from '../format.ts'
import { useFocusOnParts } from '../keep-focus.ts'
import { NameLists, useNames } from '../questions/event-fields.tsx'
import { Checkbox, Select } from '../states.tsx'
import { requiredOf } from './event-schemas.ts'

const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'].map((type) => [type, type] as const)

/** Which properties a schema names, of which type, and which of them an event must have. */
export function SchemaFields ({ schema, onChange }: { schema: Fields, onChange: (schema: object) => void }) {
  const properties = fieldsOf(schema['properties'])
  const required = requiredOf(schema)
  const [typed, setTyped] = useState('')
  // What is typed is in the draft at once, so that storing it without a press of the button loses nothing.
  const [pending, setPending] = useState('')
  const names = [...new Set([...Object.keys(properties), ...required.map(String)])].filter((name) => name !== pending)
  const list = useFocusOnParts<HTMLDivElement>(names.length)
  const known = useNames('properties')
  const write = (name: string, property: unknown): void => onChange({ ...schema, properties: { ...properties, [name]: property } })
  const type = (name: string): void => {
    const { [pending]: _, ...others } = properties
    const next = names.includes(name) ? '' : name
    setTyped(name)
    setPending(next)
    if (next !== pending) onChange({ ...schema, properties: next === '' ? others : { ...others, [next]: {} } })
  }
  const add = (): void => {
    setPending('')
    if (pending !== '') setTyped('')
  }
  const remove = (name: string): void => {
    const { [name]: _, ...others } = properties
    onChange({ ...schema, properties: others, ...required.includes(name) && { required: required.filter((each) => each !== name) } })
  }
  return (
    <div ref={list}>
      {names.map((name) => {
        const property = Object.hasOwn(properties, name) ? properties[name] : {}
        return (
          <div key={name} class='toolbar' role='group' aria-label={`Property ${name}`} data-part>
            <code>{showText(name, 100)}</code>
            <Select
              label='-Type' value={typeOf(property)} options={[['', 'of any type'], ...TYPES, ...typeOf(property) === OTHER ? [[OTHER, 'as the JSON says']] as const : []]}
              onChange={(type) => write(name, withType(property, type))}
            />
            <Checkbox
              label='required' isOn={required.includes(name)}
              onChange={(isOn) => onChange({ ...schema, required: isOn ? [...required, name] : required.filter((each) => each !== name) })}
            />
            <More property={property} />
            <button type='button' onClick={() => remove(name)}>Remove<span class='hidden'> {showText(name, 100)}</span></button>
          </div>
        )
      })}
      <div class='toolbar'>
        <label>
          Another property{' '}
          <input
            list='property-names' maxLength={200} value={typed} onInput={(event) => type(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter') return
              // Not what stores the form around it.
              event.preventDefault()
              add()
            }}
          />
        </label>
        <button type='button' data-add onClick={add}>Add it</button>
        <Checkbox
          label='No other properties' isOn={schema['additionalProperties'] === false}
          onChange={(isOn) => {
            const { additionalProperties: _, ...others } = schema
            onChange(isOn ? { ...others, additionalProperties: false } : others)
          }}
        />
      </div>
      <NameLists names={known} />
    </div>
  )
}

function More ({ property }: { property: unknown }) {
  const keywords = Object.keys(fieldsOf(property)).filter((keyword) => keyword !== 'type')
  return keywords.length === 0 ? null : <span class='hint'>with {showText(keywords.join(', '), 100)}</span>
}

const OTHER = 'other'

function typeOf (property: unknown): string {
  if (property === true) return ''
  if (!isFields(property)) return OTHER
  const { type = '' } = property
  return type === '' || TYPES.some(([each]) => each === type) ? String(type) : OTHER
}

function withType (property: unknown, type: string): unknown {
  if (type === OTHER) return property
  const { type: _, ...others } = fieldsOf(property)
  return type === '' ? others : { type, ...others }
}
