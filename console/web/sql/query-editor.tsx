import type { ComponentChild, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type SqlToken, tokenizeSql } from '../../../engines/clickhouse-sql.ts'
import { showText } from '../format.ts'
import { applySuggestion, type Catalog, findPlace, type Place, type Suggestion, suggestNames } from './complete-sql.ts'
import { KEYWORDS } from './complete-sql.ts'

export interface QueryEditorProps {
  value: string
  onInput: (value: string) => void
  onRun: () => void
  catalog: Catalog
  /** Names of events and properties for what was typed between quotes. */
  findNames: (place: Place, signal: AbortSignal) => Promise<Suggestion[]>
  /** Where ClickHouse found an error: it is marked, and the caret goes there. */
  errorAt: number | null
}

/** Beyond so many characters a text is shown without colours, so that typing stays fast. */
const MAX_COLOURED = 30_000

/** Names between quotes are asked for so long after the last key, in milliseconds. */
const TYPING_MS = 120

const KEYWORD_SET = new Set(KEYWORDS)

interface CompletionList { place: Place, suggestions: Suggestion[], chosen: number, top: number, left: number }

/** The list of names below the caret: `complete` opens it, `close` and `accept` close it. */
function useCompletion (
  area: RefObject<HTMLTextAreaElement | null>, colours: RefObject<HTMLPreElement | null>,
  { catalog, findNames, onInput }: Pick<QueryEditorProps, 'catalog' | 'findNames' | 'onInput'>
) {
  const [list, setList] = useState<CompletionList | null>(null)
  const asking = useRef<AbortController>(undefined)
  useEffect(() => () => asking.current?.abort(), [])

  function close (): void {
    asking.current?.abort()
    setList(null)
  }

  function complete (isAsked: boolean): void {
    asking.current?.abort()
    if (area.current === null) return
    const place = findPlace(area.current.value, area.current.selectionStart)
    if (place === null || (!isAsked && place.typed === '' && place.wants === 'any' && place.inside === 'name')) return setList(null)
    const show = (suggestions: Suggestion[]): void => {
      const isWritten = suggestions.length === 1 && suggestions[0]?.text === place.typed
      if (suggestions.length === 0 || isWritten || colours.current === null) return setList(null)
      setList({ place, suggestions, chosen: 0, ...placeOf(colours.current, place.from) })
    }
    if (place.inside === 'name') return show(suggestNames(place, catalog))
    const ended = asking.current = new AbortController()
    setTimeout(() => {
      if (ended.signal.aborted) return
      // Without names the list stays away: completion is a help, and no part of a query.
      findNames(place, ended.signal).then((found) => { if (!ended.signal.aborted) show(found) }, () => {})
    }, isAsked ? 0 : TYPING_MS)
  }

  function accept (index: number): void {
    const suggestion = list?.suggestions[index]
    const field = area.current
    if (list === null || suggestion === undefined || field === null) return
    const { place } = list
    const { text, back } = applySuggestion(suggestion)
    field.focus()
    field.setSelectionRange(place.from, place.to)
    // The only way in that keeps the browser's undo.
    if (!document.execCommand('insertText', false, text)) field.setRangeText(text, place.from, place.to, 'end')
    field.setSelectionRange(place.from + text.length - back, place.from + text.length - back)
    onInput(field.value)
    close()
  }

  /** @returns whether the key was for the list. */
  function handleKey (key: string, isShift: boolean): boolean {
    if (list === null) return false
    const { chosen, suggestions: { length: count } } = list
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[key]
    if (step !== undefined) {
      const next = Math.abs(step) === 1 ? (chosen + step + count) % count : Math.min(count - 1, Math.max(0, chosen + step))
      setList({ ...list, chosen: next })
    } else if ((key === 'Enter' || key === 'Tab') && !isShift) accept(chosen)
    else if (key === 'Escape') close()
    else return false
    return true
  }

  return { list, close, complete, accept, handleKey }
}

/**
 * A text area, and below it the same text in colours; so the keys, the undo and the search of the browser are its own.
 * Ctrl+Enter runs, Ctrl+Space completes; Tab leaves, as everywhere, unless a list is open.
 */
export function QueryEditor ({ value, onInput, onRun, catalog, findNames, errorAt }: QueryEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null)
  const colours = useRef<HTMLPreElement>(null)
  const { list, close, complete, accept, handleKey } = useCompletion(area, colours, { catalog, findNames, onInput })
  useEffect(() => {
    if (errorAt === null) return
    area.current?.focus()
    area.current?.setSelectionRange(errorAt, errorAt)
  }, [errorAt])

  function onKeyDown (event: KeyboardEvent): void {
    const isControl = event.ctrlKey || event.metaKey
    const isRun = isControl && event.key === 'Enter'
    const isAsked = isControl && event.key === ' '
    if (isRun || isAsked || (!isControl && !event.altKey && handleKey(event.key, event.shiftKey))) event.preventDefault()
    if (isAsked) complete(true)
    if (!isRun) return
    close()
    onRun()
  }

  return (
    <div class='editor'>
      <pre ref={colours} aria-hidden='true'><Coloured sql={value} errorAt={errorAt} />{'\n'}</pre>
      <textarea
        ref={area} value={value} aria-label='Query' spellcheck={false} autocapitalize='off' autocomplete='off' maxLength={100_000}
        aria-autocomplete='list' aria-haspopup='listbox' aria-invalid={errorAt !== null} aria-describedby='editor-keys'
        {...(list === null ? {} : { 'aria-controls': 'completions', 'aria-activedescendant': `completion-${list.chosen}` })}
        onInput={(event) => {
          onInput(event.currentTarget.value)
          complete(false)
        }}
        onKeyDown={onKeyDown} onBlur={close} onClick={close}
      />
      {list !== null && <Completions {...list} onAccept={accept} />}
      <span class='hidden' role='status'>{list === null ? '' : `${list.suggestions.length} completions`}</span>
    </div>
  )
}

interface CompletionsProps { suggestions: Suggestion[], chosen: number, top: number, left: number, onAccept: (index: number) => void }

function Completions ({ suggestions, chosen, top, left, onAccept }: CompletionsProps) {
  const box = useRef<HTMLUListElement>(null)
  useLayoutEffect(() => { box.current?.children[chosen]?.scrollIntoView({ block: 'nearest' }) }, [chosen, suggestions])
  return (
    <ul ref={box} id='completions' class='completions' role='listbox' aria-label='Completions' tabIndex={0} style={{ top: `${top}px`, left: `${left}px` }}>
      {suggestions.map(({ text, kind, detail }, index) => (
        <li
          key={`${kind} ${text} ${detail}`} id={`completion-${index}`} role='option' aria-selected={index === chosen}
          // Before the text area loses the focus.
          onMouseDown={(event) => {
            event.preventDefault()
            onAccept(index)
          }}
        >
          <code>{showText(text, 60)}</code> <span class='hint'>{kind}{detail === '' ? '' : ` · ${showText(detail, 120)}`}</span>
        </li>
      ))}
    </ul>
  )
}

/** The text in colours, token by token; every character of it, so that both texts lie upon each other. */
function Coloured ({ sql, errorAt }: { sql: string, errorAt: number | null }) {
  return <>{useMemo(() => colour(sql, errorAt), [sql, errorAt])}</>
}

function colour (sql: string, errorAt: number | null): ComponentChild[] {
  if (sql.length > MAX_COLOURED) return [sql]
  const tokens = tokenizeSql(sql)
  const pieces: ComponentChild[] = []
  let end = 0
  tokens.forEach((token, index) => {
    const kind = token.kind === 'word' ? kindOfWord(token.text, tokens[index + 1]?.text, tokens[index - 1]) : token.kind
    const isWrong = errorAt !== null && errorAt >= token.start && errorAt < token.end
    if (kind === 'symbol' && !isWrong) return
    pieces.push(sql.slice(end, token.start), <span key={index} class={isWrong ? `sql-${kind} sql-wrong` : `sql-${kind}`}>{sql.slice(token.start, token.end)}</span>)
    end = token.end
  })
  // An error at the very end has no token.
  const rest = sql.slice(end)
  return [...pieces, rest, errorAt !== null && errorAt >= sql.trimEnd().length ? <span key='end' class='sql-wrong'>{' '}</span> : null]
}

/** `DAY` is a word of the language after a number, and a name of many columns. */
const UNITS = new Set(['SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'])

function kindOfWord (word: string, next: string | undefined, before: SqlToken | undefined): string {
  const isName = before?.text === '.' || (UNITS.has(word) && before?.kind !== 'number' && before?.text !== '}')
  if (KEYWORD_SET.has(word) && !isName) return 'keyword'
  return next === '(' ? 'function' : 'word'
}

/** Where a position of the text is in its box, below its line. */
function placeOf (box: HTMLElement, position: number): { top: number, left: number } {
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT)
  let left = position
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const { length } = node as Text
    if (left > length) {
      left -= length
      continue
    }
    const range = document.createRange()
    range.setStart(node, left)
    range.setEnd(node, left)
    const [at] = range.getClientRects()
    const outer = box.getBoundingClientRect()
    if (at === undefined) break
    // A list at the right edge stays within the editor.
    return { top: at.bottom - outer.top + 2, left: Math.max(0, Math.min(at.left - outer.left, outer.width - 320)) }
  }
  return { top: 24, left: 0 }
}
