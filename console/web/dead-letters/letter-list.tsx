import { useState } from 'preact/hooks'
import { formatCount, formatCounted, formatTime, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Show } from '../states.tsx'
import { fetchLetters, type Filter } from './dead-letters.ts'
import { PurgeDialog } from './purge-dialog.tsx'
import { ReplayDialog } from './replay-dialog.tsx'

const PAGE = 50

/** The dead letters of one group, a page at a time, oldest first. */
export function LetterList ({ filter }: { filter: Required<Filter> }) {
  const [offset, setOffset] = useState(0)
  const [isReplaying, setReplaying] = useState(false)
  const [isPurging, setPurging] = useState(false)
  const letters = useLoaded(`letters ${projectId.value} ${JSON.stringify(filter)} ${offset}`,
    async (signal) => await fetchLetters(filter, { limit: PAGE, offset }, signal))
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
              <div class='toolbar'>
                <span>{formatCount(offset + 1)} to {formatCount(offset + page.results.length)} of {formatCount(page.count)}</span>
                <button type='button' disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>Previous</button>
                <button type='button' disabled={page.next === null} onClick={() => setOffset(offset + PAGE)}>Next</button>
                {may('dead_letter:write') && (
                  <>
                    <button type='button' onClick={() => setReplaying(true)}>Replay all {formatCount(page.count)} …</button>
                    <button type='button' onClick={() => setPurging(true)}>Purge …</button>
                  </>
                )}
              </div>
              <div class='scroll' role='region' aria-label='Dead letters' tabIndex={0}>
                <table>
                  <thead><tr><th scope='col' class='number'>Id</th><th scope='col'>Dead-lettered (UTC)</th><th scope='col'>Event uuid</th><th scope='col'>Error</th></tr></thead>
                  <tbody>
                    {page.results.map((letter) => (
                      <tr key={letter.id}>
                        <td class='number'><a {...linkTo(`${home}/${letter.id}`)}>{letter.id}</a></td>
                        <td>{formatTime(letter.time)}</td>
                        <td><code>{letter.uuid ?? (letter.rows === null ? '' : formatCounted(letter.rows, 'event'))}</code></td>
                        <td class='wide'>{showText(letter.error)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </>
            )}
      </Show>
      {isPurging && <PurgeDialog what={filter} onClose={() => setPurging(false)} onDone={letters.reload} />}
      {isReplaying && <ReplayDialog filter={filter} onClose={() => setReplaying(false)} onDone={letters.reload} />}
    </section>
  )
}
