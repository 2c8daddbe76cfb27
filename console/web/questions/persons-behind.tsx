import { useState } from 'preact/hooks'
import type { Answer, Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { toCsv } from '../boards/answer-table.ts'
import { TextsDialog, useAction } from '../confirm.tsx'
import { formatCount, formatCounted, formatMeasure, showText, zoneLabel } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { fileName, offerFile } from '../offer-file.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Dialog, Show, Time } from '../states.tsx'
import { describeAsOf } from './as-of.tsx'
import type { Answered, Ask, Definition } from './question-definition.ts'

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

/** A number of an answer whose persons can be listed. `people`: the number, if it is one of people. */
export interface Behind { title: string, cell: Cell, people?: number | null | undefined }

/** Opens the persons behind a number; undefined where they cannot be seen. */
export type Open = ((behind: Behind) => void) | undefined

/** What each kind of answer is drawn from. `isFolded`: as on a board, with its table behind a fold. */
export interface ViewProps<A> { answered: Answered, answer: A, definition: Definition, isFolded: boolean, onAsk: Ask | undefined, open: Open }

type BehindAnswer = Answer<'/api/projects/{project_id}/questions/persons', 'post'>

/** Persons shown, and persons in a file. */
const [LISTED, EXPORTED] = [100, 10_000]

/** A number that opens its persons, if there are any. */
export function PeopleNumber (
  { of, text = formatCount(of), open, ...behind }: Behind & { of: number | null | undefined, text?: string, open: Open }
) {
  if (open === undefined || of == null || of === 0) return <>{text}</>
  return <button type='button' class='quiet' aria-label={`${text}: list the persons of ${behind.title}`} onClick={() => open({ people: of, ...behind })}>{text}</button>
}

/** `asOf` is when the answer was computed. */
interface PersonsBehindProps { definition: Definition, asOf: string, behind: Behind, onClose: () => void }

export function PersonsBehind ({ definition, asOf, behind: { title, cell, people: counted }, onClose }: PersonsBehindProps) {
  const ask = async (limit: number, signal?: AbortSignal): Promise<BehindAnswer> =>
    await request<BehindAnswer>(`/api/projects/${projectId.value}/questions/persons`, { method: 'POST', body: { definition, cell, as_of: asOf, limit }, ...signal && { signal } })
  const list = useLoaded(`persons ${JSON.stringify(cell)}`, async (signal) => await ask(LISTED, signal))
  const [naming, setNaming] = useState<true | Schema<'Cohort'>>()
  const file = useAction(async () => {
    const rows = (await ask(EXPORTED)).results.map(({ person_id: person, name, at, value }) =>
      [person, name, at ?? '', String(value ?? '')].map((text, index) => ({ text, isNumber: index === 3 && text !== '' })))
    offerFile(new Blob([toCsv({ head: ['person_id', 'name', 'at', 'value'], rows })], { type: 'text/csv' }), fileName(title, 'csv'))
  })
  const all = list.value?.people ?? 0
  return (
    <Dialog title={showText(title, 100)} onClose={onClose} isWide>
      <Show of={list} what='The persons'>
        {({ people, results }) => {
          const hasTimes = results.some(({ at }) => at !== null)
          const hasValues = results.some(({ value }) => value !== null && value !== 1)
          return (
            <>
              {counted != null && counted !== people && (
                <p role='status'>{formatCount(people)} now, {formatCount(counted)} {describeAsOf(asOf)}: since then, persons were merged, removed or changed, or an event of that moment was stored.</p>
              )}
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
      {naming === true && (
        <SaveCohort
          title={title} question={{ definition, cell }} asOf={asOf} onSaved={setNaming}
          onClose={() => setNaming((now) => now === true ? undefined : now)}
        />
      )}
      {typeof naming === 'object' && <SavedCohort saved={naming} onClose={() => setNaming(undefined)} />}
      {file.failure}
      <p class='actions'>
        {may('feature_flag:write') && <button type='button' onClick={() => setNaming(true)}>Save as a cohort …</button>}
        <button type='button' disabled={file.isBusy} onClick={file.run}>CSV{all > EXPORTED && ` of the first ${formatCount(EXPORTED)} of ${formatCount(all)}`}</button>
        <button type='button' onClick={onClose}>Close</button>
      </p>
    </Dialog>
  )
}

interface SaveCohortProps { title: string, question: { definition: Definition, cell: Cell }, asOf: string, onSaved: (saved: Schema<'Cohort'>) => void, onClose: () => void }

/** Keeps who is behind the number, or finds them again every few minutes. */
function SaveCohort ({ title, question, asOf, onSaved, onClose }: SaveCohortProps) {
  const [living, setLiving] = useState(false)
  const save = async (texts: Record<string, string>): Promise<Schema<'Cohort'>> =>
    await request<Schema<'Cohort'>>(`/api/projects/${projectId.value}/cohorts`, { method: 'POST', body: { ...texts, question, living, as_of: asOf } })
  return (
    <TextsDialog title='Save as a cohort' texts={{ name: title.slice(0, 200) }} save={save} onDone={onSaved} onClose={onClose}>
      <Checkbox label='Living: refreshed every five minutes' isOn={living} onChange={setLiving} />
      <p class='hint'>{living ? 'All persons behind this number; a number of a fixed day stays that of the day.' : 'These persons. Those without a stored person (never identified, no properties) are left out, as flags cannot know them.'}</p>
    </TextsDialog>
  )
}

function SavedCohort ({ saved, onClose }: { saved: Schema<'Cohort'>, onClose: () => void }) {
  return (
    <Dialog title={`Saved: ${showText(saved.name, 80)}`} onClose={onClose}>
      <p role='status'>{saved.people === null ? 'Its members will be computed within seconds.' : `The cohort has ${formatCounted(saved.people, 'person', 'persons')}.`} <a {...linkTo(`/projects/${projectId.value}/flags/new?cohort=${saved.id}`)}>New flag for it</a></p>
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
