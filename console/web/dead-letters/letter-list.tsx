import { useState } from 'preact/hooks'
import { formatCount, formatCounted, formatTime, showText } from '../format.ts'
import { Pager, usePages } from '../paging.tsx'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Show, Table } from '../states.tsx'
import { fetchLetters, type Filter } from './dead-letters.ts'
import { PurgeDialog } from './purge-dialog.tsx'
import { ReplayDialog } from './replay-dialog.tsx'

/** The dead letters of one group, a page at a time, oldest first. */
export function LetterList ({ filter }: { filter: Required<Filter> }) {
  const [isReplaying, setReplaying] = useState(false)
  const [isPurging, setPurging] = useState(false)
  const letters = usePages(`letters ${projectId.value} ${JSON.stringify(filter)}`,
    async (page, signal) => await fetchLetters(filter, page, signal))
  const home = `/projects/${projectId.value}/dead-letters`
  return (
    <section>
      <p><a {...linkTo(home)}>Dead letters</a></p>
      <h1>{filter.event === '' ? 'Not about one event' : showText(filter.event, 60)}</h1>
      <p class='hint'>{filter.stage} · <code>{filter.reason}</code>{filter.error_code !== '' && <> · code {showText(filter.error_code, 20)}</>}</p>
      <Show of={letters} what='Dead letters'>
        {(page) => page.count === 0
          ? <Empty><p>None is left: they were replayed or purged.</p></Empty>
          : (
            <>
              <Pager page={page} offset={letters.offset} onOffset={letters.onOffset}>
                {may('dead_letter:write') && (
                  <>
                    <button type='button' onClick={() => setReplaying(true)}>Replay all {formatCount(page.count)} …</button>
                    <button type='button' onClick={() => setPurging(true)}>Purge …</button>
                  </>
                )}
              </Pager>
              <Table label='Dead letters' head={['#Id', 'Dead-lettered (UTC)', 'Event uuid', 'Error']}>
                {page.results.map((letter) => (
                  <tr key={letter.id}>
                    <td class='number'><a {...linkTo(`${home}/${letter.id}`)}>{letter.id}</a></td>
                    <td>{formatTime(letter.time)}</td>
                    <td><code>{letter.uuid ?? (letter.rows === null ? '' : formatCounted(letter.rows, 'event'))}</code></td>
                    <td class='wide'>{showText(letter.error)}</td>
                  </tr>
                ))}
              </Table>
            </>
            )}
      </Show>
      {isPurging && <PurgeDialog what={filter} onClose={() => setPurging(false)} onDone={letters.reload} />}
      {isReplaying && <ReplayDialog filter={filter} onClose={() => setReplaying(false)} onDone={letters.reload} />}
    </section>
  )
}
