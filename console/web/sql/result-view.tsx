import { useEffect, useState } from 'preact/hooks'
import { type Column, formatValue, isNumeric, type Value } from '../../../engines/charts/result-values.ts'
import { formatBytes, formatCount, formatCounted, formatMs, showText } from '../format.ts'
import { Dialog, Empty } from '../states.tsx'
import { describePosition, positionOf, type QueryRun } from './query-result.ts'

/** Rows of a page: enough to read, few enough to draw at once. */
const PAGE_ROWS = 100

/** Longer values open in a window of their own. */
const SHOWN_CHARACTERS = 120

/** A longer value would hold up the page. */
const OPENED_CHARACTERS = 100_000

/** Text of several lines, each as `showText` shows it. */
function showLines (text: string): string {
  return text.slice(0, OPENED_CHARACTERS).split('\n').map((line) => line.split('\t').map((part) => showText(part, OPENED_CHARACTERS)).join('\t')).join('\n')
}

/** A line that is always there, so that nothing below it moves: what the query does, or has done. */
export function RunStatus ({ run }: { run: QueryRun | undefined }) {
  const [now, setNow] = useState(() => performance.now())
  const isRunning = run?.state === 'running'
  useEffect(() => {
    if (!isRunning) return
    const timer = setInterval(() => setNow(performance.now()), 100)
    return () => clearInterval(timer)
  }, [isRunning])
  const { read_rows: read = 0, read_bytes: bytes = 0, total_rows: total = 0 } = run?.progress ?? {}
  return (
    <div class='run-status'>
      <progress max='1' {...(isRunning && total === 0 ? {} : { value: isRunning ? Math.min(1, read / total) : 0 })} hidden={!isRunning} aria-label='Rows read' />
      {run === undefined && <span class='hint'>Nothing has run yet.</span>}
      {isRunning && <span class='numbers'>{formatMs(Math.max(0, now - run.startedAt))} · {total > 0 ? `${formatCount(read)} of ` : ''}{formatCounted(total > 0 ? total : read, 'row')} read · {formatBytes(bytes)}</span>}
      <span class='numbers' role='status'>{run === undefined || isRunning ? '' : describeEnd(run)}</span>
    </div>
  )
}

function describeEnd ({ state, end, maxRows, error }: QueryRun): string {
  if (state === 'cancelled') return 'Cancelled: ClickHouse has stopped the query.'
  if (end === undefined) return error === undefined ? 'Failed.' : 'Not run.'
  const { rows, bytes, cut, ms, read_rows: read, read_bytes: readBytes } = end
  const whole = `${formatCounted(rows, 'row')} · ${formatBytes(bytes)} · ${formatMs(ms)}`
  const taken = read > rows ? ` · ${formatCounted(read, 'row')} and ${formatBytes(readBytes)} read` : ''
  if (cut === 'rows') return `First ${formatCount(maxRows)} rows; there are more. ${formatBytes(bytes)} · ${formatMs(ms)}${taken}`
  if (cut === 'bytes') return `First ${formatCounted(rows, 'row')}: the rest is too large for a page. ${formatBytes(bytes)} · ${formatMs(ms)}${taken}`
  return whole + taken
}

export function RunFailure ({ run, onShow }: { run: QueryRun, onShow: () => void }) {
  if (run.error !== undefined) return <div class='failed' role='alert'><p><strong>{run.error.message}</strong> <span class='hint'>{run.error.code}</span></p></div>
  if (run.failure === undefined) return null
  const { detail, advice, name } = run.failure
  const position = positionOf(run.query, run.failure)
  return (
    <div class='failed' role='alert'>
      <div>
        <p><strong>{name.replaceAll('_', ' ').toLowerCase().replace(/^./, (first) => first.toUpperCase())}</strong> <span class='hint'>{name}</span></p>
        <FailureDetail detail={detail} />
        {advice !== '' && <p>{advice}</p>}
      </div>
      {position !== null && <button type='button' onClick={onShow}>Go to {describePosition(run.query, position)}</button>}
    </div>
  )
}

/** The sentence; what the parser expected instead, which may be thirty lines, opens by a click. */
function FailureDetail ({ detail }: { detail: string }) {
  const cut = /\.? Expected one of: /.exec(detail)
  const [short, rest] = cut === null ? [detail, ''] : [detail.slice(0, cut.index), detail.slice(cut.index + cut[0].length)]
  return (
    <>
      <p><code>{showText(short, 300)}</code></p>
      {(rest !== '' || short.length > 300) && (
        <details><summary>The whole message</summary><p><code>{showText(detail, 4000)}</code></p></details>
      )}
    </>
  )
}

export function ResultTable ({ columns, rows, isDone }: { columns: readonly Column[], rows: readonly Value[][], isDone: boolean }) {
  const [page, setPage] = useState(0)
  const [opened, setOpened] = useState<{ column: Column, text: string }>()
  const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS))
  const first = Math.min(page, pages - 1) * PAGE_ROWS
  const shown = rows.slice(first, first + PAGE_ROWS)
  if (rows.length === 0 && isDone) return <Empty>The query returned no rows.</Empty>
  return (
    <>
      {pages > 1 && (
        <div class='toolbar'>
          <span class='numbers' role='status'>{formatCount(first + 1)} to {formatCount(first + shown.length)} of {formatCount(rows.length)}</span>
          <button type='button' disabled={first === 0} onClick={() => setPage(page - 1)}>Previous</button>
          <button type='button' disabled={page >= pages - 1} onClick={() => setPage(page + 1)}>Next</button>
        </div>
      )}
      <div class='scroll result' role='region' aria-label='Result' tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th class='number row-number' scope='col'><span class='hidden'>Row</span></th>
              {columns.map(({ name, type }, index) => (
                <th key={index} scope='col' class={isNumeric(type) ? 'number' : ''}>{showText(name, 80)}<br /><span class='type'>{showText(type, 60)}</span></th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, at) => (
              <tr key={first + at}>
                <td class='number row-number'>{formatCount(first + at + 1)}</td>
                {columns.map((column, index) => <Cell key={index} value={row[index] ?? null} column={column} onOpen={(text) => setOpened({ column, text })} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {opened !== undefined && (
        <Dialog title={showText(opened.column.name, 80)} onClose={() => setOpened(undefined)} isWide>
          <pre tabIndex={0} aria-label='The whole value'>{showLines(opened.text)}</pre>
          {opened.text.length > OPENED_CHARACTERS && <p class='hint'>The first {formatCount(OPENED_CHARACTERS)} of {formatCount(opened.text.length)} characters. A download has all of them.</p>}
          <p class='actions'><button type='button' onClick={() => { void navigator.clipboard?.writeText(opened.text) }}>Copy</button><button type='button' onClick={() => setOpened(undefined)}>Close</button></p>
        </Dialog>
      )}
    </>
  )
}

function Cell ({ value, column, onOpen }: { value: Value, column: Column, onOpen: (text: string) => void }) {
  const text = formatValue(value, column.type)
  if (value === null) return <td class={isNumeric(column.type) ? 'number hint' : 'hint'}>NULL</td>
  if (isNumeric(column.type)) return <td class='number'>{text}</td>
  if (text.length <= SHOWN_CHARACTERS) return <td>{showText(text, SHOWN_CHARACTERS)}</td>
  return <td><button type='button' class='quiet' onClick={() => onOpen(text)}>{showText(text, SHOWN_CHARACTERS)} <span class='hint'>{formatCount(text.length)} characters</span></button></td>
}
