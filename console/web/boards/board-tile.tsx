import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { chooseColumns } from '../../../engines/charts/chart-model.ts'
import type { Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { formatCounted, formatMs, formatZoned, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { fileName, offerFile } from '../offer-file.ts'
import { AnswerPicture, describeFacts, describeGap } from '../questions/answer-view.tsx'
import { AsOf, describeAsOf } from '../questions/as-of.tsx'
import { withDefaults } from '../questions/question-definition.ts'
import { Chart } from '../sql/result-chart.tsx'
import { ResultTable } from '../sql/result-view.tsx'
import { Numbers, Show } from '../states.tsx'
import { drawPng } from './answer-image.ts'
import { columnsOf, tableOf, type TileAnswer, toCsv } from './answer-table.ts'

export type Tile = Schema<'Board'>['tiles'][number]

export interface Source {
  path: string
  key?: string
}

const EVERY_MS = 60_000

interface TileViewProps {
  source: Source
  tile: Tile
  /** Counts requests for fresh answers. */
  refreshed: number
  children?: ComponentChildren
}

/** One question or saved query of a board: its picture, what it says, and files of it. */
export function TileView ({ source: { path, key }, tile: { kind, id }, refreshed, children }: TileViewProps) {
  const answered = useRef(0)
  const loaded = useLoaded(`tile ${path} ${kind} ${id}`, async (signal) => {
    // Whoever has the link only gets cached answers.
    const refresh = key === undefined && answered.current < refreshed
    const answer = await request<TileAnswer>(`${path}/answers/${kind}/${id}`, { signal, key, query: { refresh: refresh || undefined } })
    // After a failure the next try asks for a fresh one, too.
    answered.current = refreshed
    return answer
  }, { everyMs: EVERY_MS })
  const { value, reload } = loaded
  useEffect(() => { if (refreshed > 0) reload() }, [refreshed])
  const name = value === undefined ? `${kind === 'question' ? 'Question' : 'Saved query'} ${id}` : showText(value.name, 120)
  return (
    <section class='tile' aria-label={name} aria-busy={loaded.isLoading}>
      <div class='toolbar'><h2>{name}</h2>{children}</div>
      <Show of={loaded} what={name}>
        {(answer) => (
          <>
            {answer.description !== '' && <p class='hint'>{showText(answer.description, 1000)}</p>}
            <Answered answer={answer} />
            <AsOf
              through={(answer.question ?? answer.result)?.complete_through ?? null}
              gap={answer.question === null ? undefined : describeGap(answer.question)} facts={describeAnswer(answer)}
            />
            <Files answer={answer} name={name} />
          </>
        )}
      </Show>
    </section>
  )
}

function Answered ({ answer: { question, result } }: { answer: TileAnswer }) {
  if (question !== null) return <AnswerPicture answered={question} definition={withDefaults(question.definition)} isFolded />
  if (result === null) return null
  const columns = columnsOf(result)
  const chosen = result.chart === null ? null : chooseColumns(columns, result.chart)
  const table = <ResultTable columns={columns} rows={result.rows} isDone />
  if (chosen === null || result.rows.length === 0) return table
  return (
    <>
      <Chart columns={columns} rows={result.rows} along={columns[chosen.x]?.name ?? ''} chosen={chosen} />
      <Numbers isFolded>{table}</Numbers>
    </>
  )
}

function describeAnswer ({ question, result, answered_at: at, is_cached: isCached }: TileAnswer): string {
  const facts = question !== null
    ? describeFacts(question)
    : result === null
      ? ''
      : `${result.cut === null ? '' : 'There are more rows. '}Complete through ${result.complete_through === null ? 'an unknown moment' : formatZoned(result.complete_through)} · ${formatCounted(result.read_rows, 'row')} read · ${formatMs(result.ms)}`
  return `${facts} · computed at ${formatZoned(at)}${isCached ? ', used again' : ''}`
}

function Files ({ answer, name }: { answer: TileAnswer, name: string }) {
  const { error, attempt } = useAttempt()
  const png = async (): Promise<void> => {
    const { question, result } = answer
    const days = question === null ? [] : [`${question.from} to ${question.to}, days of ${question.timezone}`, describeGap(question) ?? '']
    const facts = [describeAsOf((question ?? result)?.complete_through ?? null, true), ...days].filter((fact) => fact !== '')
    offerFile(await drawPng(answer, facts), fileName(answer.name, 'png'))
  }
  return (
    <p class='toolbar'>
      <button type='button' onClick={() => offerFile(new Blob([toCsv(tableOf(answer))], { type: 'text/csv' }), fileName(answer.name, 'csv'))}>CSV<span class='hidden'> of {name}</span></button>
      <button type='button' onClick={() => { void attempt(png) }}>PNG<span class='hidden'> of {name}</span></button>
      {error !== undefined && <span role='alert' class='error'>{error.message}</span>}
    </p>
  )
}
