import { request } from '../api-client.ts'
import { toCsv } from '../boards/answer-table.ts'
import { formatCount, formatCounted, showText, zoneLabel } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { fileName, offerFile } from '../offer-file.ts'
import { linkTo, projectId } from '../router.ts'
import { Dialog, Show, Time } from '../states.tsx'
import { type Definition, formatMeasure } from './question-definition.ts'

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
      <p class='actions'>
        <button type='button' onClick={() => { void download() }}>CSV</button>
        <button type='button' onClick={onClose}>Close</button>
      </p>
    </Dialog>
  )
}
