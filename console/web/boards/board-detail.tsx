import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Answer, Schema } from '../../api-types.ts'
import { ApiError, request } from '../api-client.ts'
import { Copyable, DeleteDialog, FormDialog, TextsDialog, useAttempt } from '../confirm.tsx'
import { useCohortNames } from '../flags/cohorts.ts'
import { showText } from '../format.ts'
import { changerOf, withTouched } from '../frame/change-stored.ts'
import { listSubjects, OneOf } from '../frame/lists.tsx'
import { useAnswer, useLoaded } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Dialog, Empty, Failed, Select, Show, Time } from '../states.tsx'
import { Title } from '../title.tsx'
import { type Tile, TileView } from './board-tile.tsx'

const DAY_MS = 86_400_000

type Board = Schema<'Board'>

const listPath = (): string => `/api/projects/${projectId.value}/boards/`
export const boardsPath = (id: number | string = ''): string => `${listPath()}${id}`

export function BoardDetail ({ id }: { id: string }) {
  useCohortNames()
  const board = useAnswer<Board>(boardsPath(id))
  return (
    <OneOf home='boards' title='Boards' of={board} what='The board'>
      {(stored) => <Opened key={stored.updated_at} stored={stored} onChanged={board.reload} />}
    </OneOf>
  )
}

const keyOf = ({ kind, id }: Tile): string => `${kind} ${id}`
const addressOf = ({ kind, id }: Tile): string => `/projects/${projectId.value}/${kind === 'question' ? `questions/${id}` : `sql?saved=${id}`}`

type Change = (tiles: Tile[]) => Tile[]

/** A board as stored: until then, the API has no answers for new tiles. Each change, after those that failed before, is made to what is stored then. */
function useTiles (stored: Board) {
  const [board, setBoard] = useState(stored)
  const [notice, setNotice] = useState('')
  const { error, attempt } = useAttempt()
  const saving = useRef<Promise<Board | undefined>>(Promise.resolve(stored))
  const waiting = useRef<Change[]>([])
  const save = async (...changes: Change[]): Promise<void> => {
    saving.current = saving.current.then(async (now) => {
      waiting.current.push(...changes)
      let refusal: unknown
      const isDone = await attempt(async () => {
        for (const change of [...waiting.current]) {
          // Refused when somebody else has changed the board meanwhile; after a failure it is read again.
          now ??= await request<Board>(boardsPath(stored.id))
          try {
            now = await request<Board>(boardsPath(stored.id), { method: 'PATCH', body: { tiles: change(now.tiles), updated_at: now.updated_at } })
            setBoard(now)
          } catch (cause) {
            // It would be refused again, such as a question that is deleted; others are made.
            if (!(cause instanceof ApiError) || cause.status !== 400) throw refusal ?? cause
            refusal = cause
          }
          waiting.current.shift()
        }
        if (refusal !== undefined) throw refusal
      })
      return isDone ? now : undefined
    })
    await saving.current
  }
  const move = (tile: Tile, by: number): void => {
    void save((before) => {
      const to = before.findIndex((each) => keyOf(each) === keyOf(tile)) + by
      if (to < 0 || to >= before.length) return before
      setNotice(`Moved to place ${to + 1} of ${before.length}.`)
      return before.filter((each) => keyOf(each) !== keyOf(tile)).toSpliced(to, 0, tile)
    })
  }
  const remove = (tile: Tile): void => {
    setNotice('Removed from the board; it is still stored.')
    void save((before) => before.filter((each) => keyOf(each) !== keyOf(tile)))
  }
  return { board, notice, error, save, retry: () => { void save() }, settled: async () => await saving.current, move, remove }
}

function Opened ({ stored, onChanged }: { stored: Board, onChanged: () => void }) {
  const { board, notice, error, save, retry, settled, move, remove } = useTiles(stored)
  const { id, name, description, tiles } = board
  const [open, setOpen] = useState<'add' | 'share' | 'edit' | 'delete'>()
  const [refreshed, setRefreshed] = useState(0)
  const pressed = useRef<string>(undefined)
  // A moved element loses the focus.
  useLayoutEffect(() => { if (pressed.current !== undefined) document.getElementById(pressed.current)?.focus() }, [tiles])
  const mayWrite = may('query:write')
  return (
    <>
      <Title name={name} max={120} />
      {description !== '' && <p class='hint'>{showText(description, 3000)}</p>}
      <div class='toolbar'>
        <button type='button' class={tiles.length > 0 ? 'primary' : ''} onClick={() => setRefreshed(refreshed + 1)}>Refresh</button>
        {mayWrite && <button id='add-tile' type='button' class={tiles.length > 0 ? '' : 'primary'} onClick={() => setOpen('add')}>Add …</button>}
        {mayWrite && <button type='button' onClick={() => setOpen('share')}>Share …</button>}
        {mayWrite && <a {...linkTo(`/projects/${projectId.value}/alerts/new?about=board+${id}`)}>Send by mail or Slack</a>}
        {mayWrite && <button type='button' onClick={() => { void settled().then(() => setOpen('edit')) }}>Rename …</button>}
        {mayWrite && <button type='button' onClick={() => setOpen('delete')}>Delete …</button>}
        <span role='status' class='hint'>{notice}</span>
      </div>
      {error !== undefined && <Failed error={error} onRetry={retry} />}
      {tiles.length === 0 && <Empty>Nothing is on this board yet.</Empty>}
      <div class='board'>
        {tiles.map((tile, index) => (
          <TileView key={keyOf(tile)} source={{ path: boardsPath(id) }} tile={tile} refreshed={refreshed}>
            <a class='open' {...linkTo(addressOf(tile))}>Open<span class='hidden'> {keyOf(tile)}</span></a>
            {mayWrite && [['Move left', -1], ['Move right', 1]].map(([words, by]) => (
              <button
                key={words} id={`${words} ${keyOf(tile)}`} type='button' class='quiet' aria-disabled={tiles[index + Number(by)] === undefined}
                onClick={() => {
                  pressed.current = `${words} ${keyOf(tile)}`
                  if (tiles[index + Number(by)] !== undefined) move(tile, Number(by))
                }}
              >{words}
              </button>
            ))}
            {mayWrite && <button type='button' class='quiet' onClick={() => { pressed.current = 'add-tile'; remove(tile) }}>Remove</button>}
          </TileView>
        ))}
      </div>
      {open === 'add' && <AddDialog tiles={tiles} onAdd={async (tile) => await save((before) => [...before.filter((each) => keyOf(each) !== keyOf(tile)), tile])} onClose={() => setOpen(undefined)} />}
      {open === 'share' && <ShareDialog path={`${boardsPath(id)}/links`} onClose={() => setOpen(undefined)} />}
      {open === 'edit' && <EditDialog board={board} onSaved={onChanged} onClose={() => setOpen(undefined)} />}
      {open === 'delete' && (
        <DeleteDialog name={name} path={boardsPath(id)} onDone={() => navigate(`/projects/${projectId.value}/boards`)} onClose={() => setOpen(undefined)}>
          Its links stop working. Its questions and queries are kept.
        </DeleteDialog>
      )}
    </>
  )
}

function AddDialog ({ tiles, onAdd, onClose }: { tiles: readonly Tile[], onAdd: (tile: Tile) => Promise<void>, onClose: () => void }) {
  const [chosen, setChosen] = useState('')
  const choices = useLoaded(`tiles ${projectId.value}`, async (signal) => await listSubjects(['question', 'saved_query'], signal))
  const left = choices.value?.filter(([key]) => tiles.every((tile) => keyOf(tile) !== key)) ?? []
  const add = async (): Promise<void> => {
    const [kind, id] = chosen.split(' ')
    await onAdd({ kind: kind === 'question' ? kind : 'saved_query', id: Number(id) })
  }
  return (
    <FormDialog title='Add to the board' action='Add' isReady={chosen !== ''} onConfirm={add} onClose={onClose}>
      <Show of={choices} what='Questions'>
        {() => left.length === 0
          ? <p>There is nothing to add: <a {...linkTo(`/projects/${projectId.value}/questions`)}>ask a question</a> and save it first.</p>
          : <Select label='What' value={chosen} options={[['', 'Choose …'], ...left]} onChange={setChosen} />}
      </Show>
    </FormDialog>
  )
}

export function EditDialog ({ board, onSaved, onClose }: { board?: Board, onSaved: (board: Board) => void, onClose: () => void }) {
  const [change] = useState(() => board && changerOf<Board>(boardsPath(board.id), board.updated_at))
  const [before] = useState({ name: board?.name ?? '', description: board?.description ?? '' })
  const save = async (texts: object) => await (change?.(withTouched({}, before, { ...texts })) ?? request<Board>(listPath(), { method: 'POST', body: texts }))
  const [title, action] = board === undefined ? ['New board', 'Create'] : ['Rename the board', 'Save']
  return <TextsDialog title={title} action={action} texts={before} save={save} onDone={onSaved} onClose={onClose} />
}

/** Links to a board for people without a key: made, listed, ended. */
function ShareDialog ({ path, onClose }: { path: string, onClose: () => void }) {
  const [days, setDays] = useState('0')
  const [made, setMade] = useState<string>()
  const links = useAnswer<Answer<'/api/projects/{project_id}/boards/{id}/links'>>(path)
  const { isBusy, failure, attempt } = useAttempt()
  const create = async (): Promise<void> => {
    const expires = days === '0' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    const { value } = await request<{ value: string }>(path, { method: 'POST', body: { expires_at: expires } })
    setMade(`${location.origin}/console/shared#${value}`)
    links.reload()
  }
  const end = async (id: number): Promise<void> => {
    await request(`${path}/${id}`, { method: 'DELETE' })
    setMade(undefined)
    links.reload()
  }
  return (
    <Dialog title='Share the board' onClose={onClose}>
      <p class='hint'>
        Anyone with the link can view this board only, with later changes. It shows the saved queries on it now, until they change, if you can run SQL.
      </p>
      <div class='toolbar'>
        <Select label='The link works' value={days} options={[['0', 'until you delete it here'], ['1', 'for a day'], ['7', 'for a week'], ['30', 'for 30 days']]} onChange={setDays} />
        <button type='button' class='primary' aria-disabled={isBusy} onClick={() => { if (!isBusy) void attempt(create) }}>Make a link</button>
      </div>
      {failure}
      {made !== undefined && <><p role='status'>The link, shown only once:</p><Copyable key={made} text={made} label='Link' /></>}
      <Show of={links} what='Links'>
        {({ results }) => (
          <ul class='names'>
            {results.map(({ id, mask_value: mask, created_by: by, created_at: at, expires_at: ends }) => (
              <li key={id} class='toolbar'>
                <code>{mask}</code>
                <span class='hint'>{showText(by?.email ?? 'nobody', 60)}, <Time at={at} isZoned />; {ends === null ? 'no end' : <>until <Time at={ends} isZoned /></>}</span>
                <button type='button' onClick={() => { void attempt(async () => await end(id)) }}>End<span class='hidden'> {mask}</span></button>
              </li>
            ))}
          </ul>
        )}
      </Show>
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
