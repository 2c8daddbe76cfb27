import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { toCsv } from '../boards/answer-table.ts'
import { TextsDialog } from '../confirm.tsx'
import { formatCount, formatCounted, formatMeasure, showText, zoneLabel } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { fileName, offerFile } from '../offer-file.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Dialog, Show, Time } from '../states.tsx'
import type { Definition } from './question-definition.ts'

/** Position of a number in an answer, as the API takes it. */
export interface Cell {
  part?: string
  value?: string | null
  series?: number
  previous?: boolean
  start?: string | null | undefined
  step?: number
  outcome?: string
  returned?: number
  state?: string
  periods?: number
  from_ms?: number
  from?: string | null
  to?: string | null
}

/** A number of an answer whose persons can be listed. */
export interface Behind { title: string, cell: Cell }

/** Opens the persons behind a number; undefined where they cannot be seen. */
export type Open = ((behind: Behind) => void) | undefined

interface BehindAnswer {
  people: number
  results: { person_id: string, at: string | null, value: number | null, name: string, is_known: boolean }[]
}

/** Persons shown, and persons in a file. */
const [LISTED, EXPORTED] = [100, 10_000]

/** A number that opens its persons, if there are any. */
export function PeopleNumber (
  { of, text = formatCount(of), title, cell, open }: Behind & { of: number | null | undefined, text?: string, open: Open }
) {
  if (open === undefined || of == null || of === 0) return <>{text}</>
  return <button type='button' class='quiet' aria-label={`${text}: list the persons of ${title}`} onClick={() => open({ title, cell })}>{text}</button>
}

export function PersonsBehind ({ definition, behind: { title, cell }, onClose }: { definition: Definition, behind: Behind, onClose: () => void }) {
  const ask = async (limit: number, signal?: AbortSignal): Promise<BehindAnswer> =>
    await request<BehindAnswer>(`/api/projects/${projectId.value}/questions/persons`, { method: 'POST', body: { definition, cell, limit }, ...signal && { signal } })
  const list = useLoaded(`persons ${JSON.stringify(cell)}`, async (signal) => await ask(LISTED, signal))
  const [isNaming, setNaming] = useState(false)
  async function download (): Promise<void> {
    const rows = (await ask(EXPORTED)).results.map(({ person_id: person, name, at, value }) =>
      [person, name, at ?? '', String(value ?? '')].map((text, index) => ({ text, isNumber: index === 3 && text !== '' })))
    offerFile(new Blob([toCsv({ head: ['person_id', 'name', 'at', 'value'], rows })], { type: 'text/csv' }), fileName(title, 'csv'))
  }
  return (
    <Dialog title={showText(title, 100)} onClose={onClose} isWide>
      <Show of={list} what='The persons'>
        {({ people, results }) => {
          const hasTimes = results.some(({ at }) => at !== null)
          const hasValues = results.some(({ value }) => value !== null && value !== 1)
          return (
            <>
              <p class='hint'>{formatCounted(people, 'person', 'persons')}{people > LISTED && `, the first ${LISTED} are listed`}{hasTimes && ', latest first'}.</p>
              <Rows
                label='Persons' of={results} columns={[
                  ['Person', ({ person_id: id, name, is_known: isKnown }) => <a {...linkTo(`/projects/${projectId.value}/${isKnown ? 'persons/' : 'stored?person='}${id}`)}>{name === '' ? id : showText(name, 80)}</a>],
                  hasTimes && [`Last (${zoneLabel()})`, ({ at }) => <Time at={at} />],
                  hasValues && ['#Value', ({ value }) => formatMeasure(value)]
                ]}
              />
            </>
          )
        }}
      </Show>
      {isNaming && <SaveCohort title={title} question={{ definition, cell }} onClose={() => setNaming(false)} />}
      <p class='actions'>
        {may('feature_flag:write') && <button type='button' onClick={() => setNaming(true)}>Save as a cohort …</button>}
        <button type='button' onClick={() => { void download() }}>CSV</button>
        <button type='button' onClick={onClose}>Close</button>
      </p>
    </Dialog>
  )
}

interface SaveCohortProps { title: string, question: { definition: Definition, cell: Cell }, onClose: () => void }

/** Keeps who is behind the number now, or finds them again every few minutes. */
function SaveCohort ({ title, question, onClose }: SaveCohortProps) {
  const [saved, setSaved] = useState<Schema<'Cohort'>>()
  const [living, setLiving] = useState(false)
  const save = async (texts: Record<string, string>): Promise<void> =>
    setSaved(await request<Schema<'Cohort'>>(`/api/projects/${projectId.value}/cohorts`, { method: 'POST', body: { ...texts, question, living } }))
  if (saved === undefined) {
    return (
      <TextsDialog title='Save as a cohort' texts={{ name: title.slice(0, 200) }} save={save} onClose={() => {}}>
        <Checkbox label='Living: found again every five minutes' isOn={living} onChange={setLiving} />
        <p class='hint'>{living ? 'All persons behind this number; a number of a fixed day stays that of the day.' : 'These persons, as of now. Those without a stored person (never identified, no properties) are left out, as flags cannot know them.'}</p>
      </TextsDialog>
    )
  }
  return (
    <Dialog title={`Saved: ${showText(saved.name, 80)}`} onClose={onClose}>
      <p role='status'>{saved.people === null ? 'Its persons will be found within seconds.' : `The cohort has ${formatCounted(saved.people, 'person', 'persons')}.`} <a {...linkTo(`/projects/${projectId.value}/flags/new?cohort=${saved.id}`)}>New flag for it</a></p>
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
