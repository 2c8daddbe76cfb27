/** What happened in a project, such as a release: marks on charts over time, and the list of them below. */
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { type Page, request } from '../api-client.ts'
import { DeleteDialog, FormDialog } from '../confirm.tsx'
import { changerOf } from '../frame/change-stored.ts'
import { formatterOf, showText } from '../format.ts'
import { projectId } from '../router.ts'
import { may, whenSessionEnds } from '../session.ts'
import type { Mark } from '../sql/result-chart.tsx'
import { Time } from '../states.tsx'
import type { Answered, Point } from './question-definition.ts'

export type Annotation = Schema<'Annotation'>

const listPath = (): string => `/api/projects/${projectId.value}/annotations/`
const pathOf = (id: number): string => `${listPath()}${id}/`

/** Those of a project, shared by all charts of a page: a board has many. */
const NONE: { project: number | undefined, of: readonly Annotation[] } = { project: undefined, of: [] }
const known = signal(NONE)
whenSessionEnds(() => { known.value = NONE })

async function load (): Promise<void> {
  const project = projectId.value
  known.value = { project, of: [] }
  const { results } = await request<Page<Annotation>>(listPath(), { query: { limit: 1000 } })
  if (projectId.value === project) keep(results)
}

/** Puts some into those that are known, without the one of `gone`. */
function keep (some: readonly Annotation[], gone?: number): void {
  const others = known.value.of.filter(({ id }) => id !== gone && some.every((each) => each.id !== id))
  known.value = { ...known.value, of: [...others, ...some].sort((one, other) => Date.parse(one.at) - Date.parse(other.at)) }
}

/** The annotations in the range of an answer, and the point that each belongs to; empty for viewers of a link. */
export function useAnnotations ({ from, to, timezone }: Answered, points: readonly Point[]): (Mark & { annotation: Annotation })[] {
  const project = projectId.value
  // A chart is whole without its marks.
  useEffect(() => { if (may('query:read') && known.value.project !== project) load().catch(() => {}) }, [project])
  const { of } = known.value.project === project ? known.value : { of: [] }
  return of.flatMap((annotation) => {
    const at = formatterOf(timezone).format(new Date(annotation.at))
    // Clocks show an hour twice, when they are turned back.
    const row = points.findLastIndex(({ start }) => start.length === 10 ? start <= at : Date.parse(start) <= Date.parse(annotation.at))
    return row === -1 || at.slice(0, 10) < from || at.slice(0, 10) > to ? [] : [{ row, text: annotation.name, annotation }]
  })
}

/** All of a chart, for those who do not see its marks; they are changed here. */
export function AnnotationList ({ of, mayChange }: { of: readonly { annotation: Annotation }[], mayChange: boolean }) {
  const [open, setOpen] = useState<{ of?: Annotation, isDeleted?: true }>()
  const isWriter = mayChange && may('query:write')
  const close = (): void => setOpen(undefined)
  return (
    <>
      {of.length > 0 && (
        <ul class='names' aria-label='Annotations'>
          {of.map(({ annotation }) => (
            <li key={annotation.id}>
              <Time at={annotation.at} /> {showText(annotation.name, 200)}
              {isWriter && (
                <>
                  {' '}<button type='button' class='quiet' onClick={() => setOpen({ of: annotation })}>Change<span class='hidden'> {annotation.name}</span></button>
                  <button type='button' class='quiet' onClick={() => setOpen({ of: annotation, isDeleted: true })}>Delete<span class='hidden'> {annotation.name}</span></button>
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {isWriter && <p><button type='button' onClick={() => setOpen({})}>Annotate …</button></p>}
      {open !== undefined && open.isDeleted !== true && <AnnotationDialog of={open.of} onClose={close} />}
      {open?.isDeleted === true && open.of !== undefined && (
        <DeleteDialog name={open.of.name} path={pathOf(open.of.id)} onDone={() => keep([], open.of?.id)} onClose={close}>
          Its mark is removed from all charts of the project.
        </DeleteDialog>
      )}
    </>
  )
}

/** A moment as its field has it: by the clock of the browser. */
const toField = (ms: number): string => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

function AnnotationDialog ({ of, onClose }: { of: Annotation | undefined, onClose: () => void }) {
  const [change] = useState(() => of && changerOf<Annotation>(pathOf(of.id), of.updated_at))
  const [name, setName] = useState(of?.name ?? '')
  const [at, setAt] = useState(() => toField(of === undefined ? Date.now() : Date.parse(of.at)))
  const save = async (): Promise<void> => {
    // The field has no seconds.
    const isMoved = of === undefined || at !== toField(Date.parse(of.at))
    const body = { name: name.trim(), ...isMoved && { at: new Date(at).toISOString() } }
    // Reading all again could fail, and the next try would add a second one.
    const stored = await (change?.(body) ?? request<Annotation>(listPath(), { method: 'POST', body }))
    if (stored.team_id === known.value.project) keep([stored])
  }
  return (
    <FormDialog
      title={of === undefined ? 'New annotation' : `Change ${showText(of.name, 60)}`} action='Save'
      isReady={name.trim() !== '' && at !== ''} onConfirm={save} onClose={onClose}
    >
      <label>What happened <input required maxLength={200} placeholder='release 2.3' value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <label>When, by the clock of {Intl.DateTimeFormat().resolvedOptions().timeZone} <input type='datetime-local' required value={at} onInput={(event) => setAt(event.currentTarget.value)} /></label>
      <p class='hint'>It is marked on all charts over time of this project.</p>
    </FormDialog>
  )
}
