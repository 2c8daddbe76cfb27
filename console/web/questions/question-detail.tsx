import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { type Page, request } from '../api-client.ts'
import { DeleteDialog, FormDialog, TextsDialog } from '../confirm.tsx'
import { changerOf } from '../frame/change-stored.ts'
import { BackTo } from '../frame/lists.tsx'
import { useUnsaved } from '../frame/unsaved.tsx'
import { showText } from '../format.ts'
import { bringIntoSight } from '../keep-focus.ts'
import { useAnswer, useLoaded } from '../load.ts'
import { useIsPhone } from '../measure-width.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Title } from '../title.tsx'
import { Select, Show } from '../states.tsx'
import { AnswerView } from './answer-view.tsx'
import { DefinitionEditor } from './definition-editor.tsx'
import { NameLists, useNames } from './event-fields.tsx'
import { type Answered, type Ask, type Definition, describeQuestion, type Kind, KINDS, type Question, withDefaults } from './question-definition.ts'

export function questionsPath (id?: number | string): string {
  return `/api/projects/${projectId.value}/questions/${id === undefined ? '' : `${id}`}`
}

export function QuestionDetail ({ id }: { id: string }) {
  const question = useAnswer<Question>(questionsPath(id))
  return (
    <Show of={question} what='The question'>
      {(stored) => <Workbench key={stored.updated_at} stored={stored} first={withDefaults(stored.definition)} onSaved={question.reload} />}
    </Show>
  )
}

/** The definition that was asked last at this address. Behind the #, it stays in the browser: no log has it. */
function readAsked (kind: Kind): Definition | undefined {
  try {
    const definition: Definition | null = JSON.parse(new URLSearchParams(location.hash.slice(1)).get('definition') ?? 'null')
    return definition?.kind === kind ? withDefaults(definition) : undefined
  } catch {
    return undefined
  }
}

/** So that loading the page again, and the way back to it, show what was asked. */
function keepAsked (definition: Definition | undefined): void {
  const hash = definition === undefined ? '' : `#${new URLSearchParams({ definition: JSON.stringify(definition) }).toString()}`
  history.replaceState(null, '', location.pathname + location.search + hash)
}

interface WorkbenchProps { stored: Question | undefined, first: Definition, onSaved: () => void }

/** A definition, its answer, and what keeps it. @param props.stored  Undefined: a new question. */
export function Workbench ({ stored, first, onSaved }: WorkbenchProps) {
  const [kept, setKept] = useState(() => readAsked(first.kind))
  const [definition, setDefinition] = useState(kept ?? first)
  const [asked, setAsked] = useState<{ definition: Definition, round: number } | undefined>(
    stored === undefined && kept === undefined ? undefined : { definition, round: 0 }
  )
  const [open, setOpen] = useState<'save' | 'new' | 'board' | 'delete'>()
  const names = useNames('events', 'properties', 'personProperties')
  const isChanged = JSON.stringify(definition) !== JSON.stringify(first)
  useUnsaved(isChanged && JSON.stringify(definition) !== JSON.stringify(kept))
  const [title, words] = KINDS[definition.kind]
  const isPhone = useIsPhone()
  const form = useRef<HTMLDetailsElement>(null)
  const ask: Ask = (next, isAnswered = false) => {
    keepAsked(next)
    setKept(next)
    setDefinition(isAnswered && next.kind === 'trend' ? (before) => ({ ...before, display: next.display }) : next)
    setAsked({ definition: next, round: (asked?.round ?? 0) + (isAnswered ? 0 : 1) })
    // On a phone the answer stands first, and the form is out of its way.
    if (isPhone && form.current !== null) form.current.open = false
  }
  const answers = asked !== undefined && <Answers key='answers' asked={asked} saved={stored !== undefined && isSame(asked.definition, first) ? stored.id : undefined} isPhone={isPhone} isOld={JSON.stringify(asked.definition) !== JSON.stringify(definition)} onAsk={ask} />
  return (
    <section class='question'>
      <BackTo home='questions' title='Questions' />
      <Title name={stored?.name ?? `New ${title.toLowerCase()}`} max={120} />
      <p class='hint'>{stored !== undefined && stored.description !== '' ? showText(stored.description, 3000) : `${title}: ${words}.`}</p>
      {isPhone && answers}
      <details key='form' ref={form} class='form' open={!isPhone || asked === undefined}>
        <summary>Change the question</summary>
        <form
          id='question'
          onSubmit={(event) => {
            event.preventDefault()
            ask(definition)
          }}
        >
          <NameLists names={names} />
          <DefinitionEditor definition={definition} names={names} onChange={setDefinition} />
        </form>
      </details>
      <p class='toolbar'>
        <button type='submit' form='question' class='primary'>Ask</button>
        {may('query:write') && <button type='button' onClick={() => setOpen('save')}>Save …</button>}
        {stored !== undefined && may('query:write') && <button type='button' onClick={() => setOpen('new')}>Save as a new one …</button>}
        {stored !== undefined && may('query:write') && <button type='button' onClick={() => setOpen('board')}>Add to a board …</button>}
        {stored !== undefined && may('query:write') && <button type='button' onClick={() => setOpen('delete')}>Delete …</button>}
        {stored?.definition.kind === 'trend' && may('query:write') && <a {...linkTo(`/projects/${projectId.value}/alerts/new?about=question+${stored.id}`)}>New alert</a>}
        {isChanged && stored !== undefined && <span class='hint'>Changed, not saved.</span>}
      </p>
      {!isPhone && answers}
      {(open === 'save' || open === 'new') && <SaveDialog definition={definition} stored={open === 'save' ? stored : undefined} onSaved={onSaved} onClose={() => setOpen(undefined)} />}
      {open === 'board' && stored !== undefined && <BoardDialog id={stored.id} name={stored.name} onClose={() => setOpen(undefined)} />}
      {open === 'delete' && stored !== undefined && (
        <DeleteDialog name={stored.name} path={questionsPath(stored.id)} onDone={() => navigate(`/projects/${projectId.value}/questions`)} onClose={() => setOpen(undefined)}>
          Links to this question will stop working. Nothing else is lost.
        </DeleteDialog>
      )}
    </section>
  )
}

/** Whether two definitions have the same answer. */
function isSame (one: Definition, other: Definition): boolean {
  return JSON.stringify({ ...one, display: undefined }) === JSON.stringify({ ...other, display: undefined })
}

/** `saved`: the id of the question of this definition. What it asks of persons, a viewer may not ask. */
interface AnswersProps { asked: { definition: Definition, round: number }, saved: number | undefined, isPhone: boolean, isOld: boolean, onAsk: Ask }

function Answers ({ asked: { definition, round }, saved, isPhone, isOld, onAsk }: AnswersProps) {
  const answer = useLoaded(`answer ${round}`, async (signal) => saved === undefined
    ? await request<Answered>(questionsPath('answer'), { method: 'POST', body: { definition }, signal })
    : await request<Answered>(`${questionsPath(saved)}/answer`, { signal }))
  const place = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => { if (round > 0 && answer.value !== undefined && !isOld) bringIntoSight(place.current, isPhone) }, [answer.value])
  return (
    <div ref={place} tabIndex={-1} class={isPhone && answer.value === undefined && answer.isLoading ? 'first-answer' : ''}>
      {isOld && answer.value !== undefined && <p class='hint' role='status'>The question has changed: ask again.</p>}
      <Show of={answer} what='The answer, for a minute at most'>{(answered) => <AnswerView answered={answered} definition={definition} onAsk={onAsk} />}</Show>
    </div>
  )
}

const NEW_BOARD = 'new'

/** Puts a stored question last on a board, which may be a new one. */
function BoardDialog ({ id, name: question, onClose }: { id: number, name: string, onClose: () => void }) {
  const [chosen, setChosen] = useState<string>()
  const [name, setName] = useState(question)
  const path = `/api/projects/${projectId.value}/boards/`
  const boards = useAnswer<Page<Schema<'Board'>>>(path, { limit: 1000 })
  const without = boards.value?.results.filter(({ tiles }) => !tiles.some((tile) => tile.kind === 'question' && tile.id === id)) ?? []
  const isNew = (chosen ?? (without.length === 0 ? NEW_BOARD : '')) === NEW_BOARD
  const add = async (): Promise<void> => {
    const tile = { kind: 'question', id }
    // As it is now: a board that somebody else has changed since it was listed gets the tile, too.
    const { tiles = [], updated_at: at } = isNew ? {} : await request<Partial<Schema<'Board'>>>(`${path}${chosen ?? ''}`)
    const stored = isNew
      ? await request<Schema<'Board'>>(path, { method: 'POST', body: { name: name.trim(), tiles: [tile] } })
      : await request<Schema<'Board'>>(`${path}${chosen ?? ''}`, { method: 'PATCH', body: { tiles: [...tiles, tile], updated_at: at } })
    navigate(`/projects/${projectId.value}/boards/${stored.id}`)
  }
  return (
    <FormDialog
      title='Add to a board' action='Add' onConfirm={add} onClose={onClose}
      isReady={boards.value !== undefined && (isNew ? name.trim() !== '' : chosen !== undefined && chosen !== '')}
    >
      <Show of={boards} what='Boards'>
        {() => (
          <>
            {without.length > 0 && <Select label='Board' value={chosen ?? ''} options={[['', 'Choose …'], ...without.map((board): [number, string] => [board.id, showText(board.name, 80)]), [NEW_BOARD, 'A new board']]} onChange={setChosen} />}
            {isNew && (
              <label>Name of the new board <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
            )}
          </>
        )}
      </Show>
    </FormDialog>
  )
}

interface SaveDialogProps { definition: Definition, stored: Question | undefined, onSaved: () => void, onClose: () => void }

function SaveDialog ({ definition, stored, onSaved, onClose }: SaveDialogProps) {
  const [change] = useState(() => stored && changerOf<Question>(questionsPath(stored.id), stored.updated_at))
  const texts = { name: stored?.name ?? describeQuestion(definition).slice(0, 200), description: stored?.description ?? '' }
  const save = async (changed: Record<string, string>): Promise<void> => {
    const body = { ...changed, definition }
    if (change === undefined) {
      const { id } = await request<Question>(questionsPath(), { method: 'POST', body })
      navigate(`/projects/${projectId.value}/questions/${id}`)
    } else {
      await change(body)
      keepAsked(undefined)
      onSaved()
    }
  }
  return (
    <TextsDialog title={stored === undefined ? 'Save as a new question' : `Save the changes of ${showText(stored.name, 60)}`} texts={texts} save={save} onClose={onClose}>
      <p class='hint'>Visible to everyone who can read queries of this project.</p>
    </TextsDialog>
  )
}
