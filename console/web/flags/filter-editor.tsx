import { useState } from 'preact/hooks'
import { showText } from '../format.ts'
import { Parts } from '../frame/parts.tsx'
import { useFocusOnParts } from '../keep-focus.ts'
import { cohortAges, cohortNames, type Condition, describeCondition, type FlagFilters, OPERATORS, type PropertyFilter, readValue, replaceAt, type Variant, WITHOUT_VALUE, writeValue } from './flag-filters.ts'
import { Ago, NumberField, Select } from '../states.tsx'

/** Fields for the conditions, variants and payloads of a flag. What it has no field for stays as it is. */
export function FilterEditor ({ filters, onChange }: { filters: FlagFilters, onChange: (filters: FlagFilters) => void }) {
  const { groups = [] } = filters
  const variants = filters.multivariate?.variants ?? []
  return (
    <>
      <h2>Conditions</h2>
      <p class='hint'>The first matching condition decides.</p>
      <Parts of={groups} what='condition' blank={{ properties: [], rollout_percentage: 100 }} onChange={(next) => onChange({ ...filters, groups: next })}>
        {(condition, index, set) => <ConditionEditor condition={condition} number={index + 1} variants={variants} onChange={set} />}
      </Parts>
      <h2>Variants</h2>
      <Variants
        variants={variants} least={filters.multivariate?.rest_without_variant === true ? 0 : 100}
        onChange={(next) => onChange({ ...filters, multivariate: next.length === 0 ? null : { ...filters.multivariate, variants: next } })}
      />
      <h2>Payloads</h2>
      <Payloads names={variants.length === 0 ? ['true'] : variants.map(({ key }) => key)} filters={filters} onChange={onChange} />
    </>
  )
}

interface ConditionProps { condition: Condition, number: number, variants: readonly Variant[], onChange: (condition: Condition) => void }

function ConditionEditor ({ condition, number, variants, onChange }: ConditionProps) {
  const { properties = [] } = condition
  const list = useFocusOnParts<HTMLFieldSetElement>(properties.length)
  return (
    <fieldset ref={list} class='condition'>
      <legend>{number}. {showText(describeCondition(condition), 600)}</legend>
      {properties.map((filter, index) => (
        <FilterFields
          key={index} filter={filter} label={`Condition ${number}, filter ${index + 1}`}
          onChange={(next) => onChange({ ...condition, properties: replaceAt(properties, index, next) })}
        />
      ))}
      <div class='toolbar'>
        <NumberField label='Rollout' least={0} most={100} value={condition.rollout_percentage ?? 100} onChange={(share) => onChange({ ...condition, rollout_percentage: share })}> %</NumberField>
        {variants.length > 0 && (
          <Select
            label='Variant' value={condition.variant ?? ''} options={[['', 'by their shares'], ...variants.map(({ key }) => [key, key] as const)]}
            onChange={(value) => onChange({ ...condition, variant: value === '' ? null : value })}
          />
        )}
        <button type='button' data-add onClick={() => onChange({ ...condition, properties: [...properties, { type: 'person', key: '', operator: 'exact', value: '' }] })}>Add a filter</button>
      </div>
    </fieldset>
  )
}

function FilterFields ({ filter, label, onChange }: { filter: PropertyFilter, label: string, onChange: (filter: PropertyFilter | null) => void }) {
  const { type = 'person' } = filter
  const isProperty = type !== 'cohort' && type !== 'flag'
  return (
    <div class='toolbar' role='group' aria-label={label} data-part>
      <select
        aria-label='Of what' value={type ?? 'person'} onChange={(event) => {
          const next = event.currentTarget.value
          onChange({ type: next, key: next === 'cohort' ? 'id' : '', operator: DEFAULT_OPERATOR[next] ?? 'exact', value: next === 'flag' ? true : '' })
        }}
      >
        <option value='person'>person property</option><option value='group'>group property</option><option value='cohort'>cohort</option><option value='flag'>other flag</option>
      </select>
      {type !== 'cohort' && <input aria-label={type === 'flag' ? 'Key of the flag' : 'Property'} required value={filter.key} onInput={(event) => onChange({ ...filter, key: event.currentTarget.value })} />}
      {isProperty && <ComparisonFields of={filter} onChange={onChange} />}
      {type === 'cohort' && <CohortFields filter={filter} onChange={onChange} />}
      {type === 'flag' && <JsonField label={VALUE} value={filter.value} onChange={(value) => onChange({ ...filter, value })} />}
      <button type='button' onClick={() => onChange(null)}>Remove<span class='hidden'> {label}</span></button>
    </div>
  )
}

/** In which cohort, by name; by id where the names are not known, and for a cohort that is gone. */
export function CohortFields ({ filter, onChange }: { filter: PropertyFilter, onChange: (filter: PropertyFilter) => void }) {
  const { operator, value } = filter
  const names = cohortNames.value
  const age = cohortAges.value.get(String(value))
  const isKnown = value === '' || names.has(String(value))
  return (
    <>
      <select aria-label='Operator' value={operator ?? 'in'} onChange={(event) => onChange({ ...filter, operator: event.currentTarget.value })}>
        <option value='in'>in</option><option value='not_in'>not in</option>
      </select>
      {names.size > 0 && isKnown
        ? (
          <select
            aria-label='Cohort' required value={String(value)}
            onChange={(event) => onChange({ ...filter, value: event.currentTarget.value === '' ? '' : Number(event.currentTarget.value) })}
          >
            <option value=''>choose a cohort</option>
            {[...names].map(([id, name]) => <option key={id} value={id}>{showText(name, 60)}</option>)}
          </select>
          )
        : <JsonField label='Id of the cohort' value={value} onChange={(next) => onChange({ ...filter, value: next })} />}
      {age !== undefined && <span class='hint'>{age === null ? 'members not computed yet' : <>as of <Ago at={age} /></>}</span>}
    </>
  )
}

const DEFAULT_OPERATOR: Record<string, string> = { person: 'exact', group: 'exact', cohort: 'in', flag: 'flag_evaluates_to' }

const VALUE = 'Value: text, or JSON for numbers and lists'

interface Comparison { operator?: string | null, value?: unknown }

interface ComparisonFieldsProps<T> {
  of: T
  /** Those that are offered; all without it. */
  operators?: readonly (readonly [string, string])[]
  list?: string | undefined
  onChange: (of: T) => void
}

/** How something is compared, and with what. */
export function ComparisonFields<T extends Comparison> ({ of, operators = Object.entries(OPERATORS), list, onChange }: ComparisonFieldsProps<T>) {
  const operator = of.operator ?? 'exact'
  return (
    <>
      <Select label='-Operator' value={operator} options={operators} onChange={(next) => onChange({ ...of, operator: next })} />
      {!WITHOUT_VALUE.has(operator) && <JsonField label={VALUE} value={of.value} list={list} onChange={(value) => onChange({ ...of, value })} />}
    </>
  )
}

interface JsonFieldProps { label: string, value: unknown, list?: string | undefined, read?: (text: string) => unknown, onChange: (value: unknown) => void }

/** A text field for any value. Keeps the text as typed, and reads a value from it: without `read`, one of a condition. */
export function JsonField ({ label, value, list, read = readValue, onChange }: JsonFieldProps) {
  const [typed, setTyped] = useState(writeValue(value, read))
  return (
    <input
      aria-label={label} title={label} placeholder={label === VALUE ? 'value' : undefined} list={list} value={JSON.stringify(read(typed)) === JSON.stringify(value) ? typed : writeValue(value, read)}
      onInput={(event) => {
        setTyped(event.currentTarget.value)
        onChange(read(event.currentTarget.value))
      }}
    />
  )
}

/** @param least  What the shares have to sum to; the rest of a flag that was imported may get no variant. */
function Variants ({ variants, least, onChange }: { variants: readonly Variant[], least: number, onChange: (variants: Variant[]) => void }) {
  const sum = variants.reduce((total, { rollout_percentage: percentage }) => total + percentage, 0)
  return (
    <>
      {variants.length === 0 && <p class='hint'>No variants: the flag is on or off.</p>}
      <Parts of={variants} what='variant' blank={{ key: '', rollout_percentage: Math.max(0, 100 - sum) }} onChange={onChange}>
        {(variant, index, set) => (
          <div class='toolbar' role='group' aria-label={`Variant ${index + 1}`}>
            <label>Key <input required value={variant.key} onInput={(event) => set({ ...variant, key: event.currentTarget.value })} /></label>
            <NumberField label='Share' least={0} most={100} value={variant.rollout_percentage} onChange={(share) => set({ ...variant, rollout_percentage: share })}> %</NumberField>
          </div>
        )}
      </Parts>
      {variants.length > 0 && sum < 100 && least === 0 && <p class='hint'>For the remaining users the flag is on without a variant.</p>}
      {variants.length > 0 && (sum > 100 + 1e-6 || sum < least - 1e-6) && <p class='error'>The shares must sum to 100; they sum to {sum}.</p>}
    </>
  )
}

/** A payload is JSON in a string, or any other JSON. */
const payloadText = (payload: unknown): string => payload === undefined ? '' : typeof payload === 'string' ? payload : JSON.stringify(payload)

function Payloads ({ names, filters, onChange }: { names: readonly string[], filters: FlagFilters, onChange: (filters: FlagFilters) => void }) {
  const { payloads = {} } = filters
  return (
    <>
      {names.map((name) => (
        <p key={name} class='payload'>
          <label>
            For <code>{name}</code>{' '}
            <input
              placeholder='none; any JSON' value={payloadText(Object.hasOwn(payloads, name) ? payloads[name] : undefined)} onInput={(event) => {
                const { [name]: _, ...others } = payloads
                const text = event.currentTarget.value
                onChange({ ...filters, payloads: text === '' ? others : { ...others, [name]: text } })
              }}
            />
          </label>
        </p>
      ))}
    </>
  )
}
