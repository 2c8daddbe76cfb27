import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { useAction } from '../confirm.tsx'
import { formatBytes, showText } from '../format.ts'
import { BackTo } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Facts, Show, Time } from '../states.tsx'
import { PurgeDialog } from './letter-dialogs.tsx'
import { base, type OpenedDeadLetter, type ReplayResult, STAGES } from './dead-letter-requests.ts'
import { Title } from '../title.tsx'

/** More of a body than this is not drawn, in characters: the browser stays quick, and the rest is in the command line. */
const MAX_SHOWN = 100_000

/** One dead letter: its cause, its content, and its replay. */
export function LetterDetail ({ id }: { id: string }) {
  const letter = useAnswer<OpenedDeadLetter>(`${base()}/${encodeURIComponent(id)}`)
  return (
    <section>
      <BackTo home='dead-letters' title='Dead letters' />
      <Title name={`Dead letter ${id}`} />
      <Show of={letter} what='The dead letter'>{(value) => <Letter letter={value} />}</Show>
    </section>
  )
}

function Letter ({ letter }: { letter: OpenedDeadLetter }) {
  const [outcome, setOutcome] = useState<'replayed' | 'kept'>()
  const [isPurging, setPurging] = useState(false)
  const { isBusy, run, failure } = useAction(async () => {
    const { replayed } = await request<ReplayResult>(`${base()}/${letter.id}/replay`, { method: 'POST', body: {} })
    setOutcome(replayed === 1 ? 'replayed' : 'kept')
  })

  return (
    <>
      <Facts
        of={{
          Stage: `${letter.stage}: ${STAGES[letter.stage] ?? ''}`, Reason: <code>{letter.reason}</code>,
          Error: showText(letter.error, 1000) + (letter.error_code === null ? '' : ` (code ${showText(letter.error_code, 20)})`),
          'Dead-lettered': <Time at={letter.time} isZoned />, Event: letter.event === null ? 'not about one event' : showText(letter.event),
          Uuid: <code>{letter.uuid ?? '–'}</code>
        }}
      />
      {failure}
      {may('dead_letter:write') && outcome !== 'replayed' && (
        <p>
          <button type='button' class='primary' disabled={isBusy} onClick={run}>Replay</button>{' '}
          <button type='button' onClick={() => setPurging(true)}>Purge …</button>{' '}
          <span class='hint'>A replay publishes it to its stream again. Stored events are not counted twice.</span>
        </p>
      )}
      <p role='status'>
        {outcome === 'replayed' && 'Replayed. If it fails again, it returns as a new dead letter.'}
        {outcome === 'kept' && 'Kept: its origin is unknown, so it cannot be replayed.'}
      </p>
      {isPurging && <PurgeDialog what={{ id: letter.id }} onClose={() => setPurging(false)} onDone={() => navigate(`/projects/${projectId.value}/dead-letters`)} />}
      <h2>Content</h2>
      {letter.content === null
        ? (
          <p>
            The content is neither events nor JSON, which may be the cause: {formatBytes(Math.floor(letter.body_base64.length * 3 / 4))}.
            Its bytes: <code>npx millrace dead-letters show {letter.id}</code>
          </p>
          )
        : <Json value={letter.content} />}
      <details>
        <summary>Headers of the message</summary>
        <Json value={letter.headers} />
      </details>
    </>
  )
}

function Json ({ value }: { value: unknown }) {
  const text = JSON.stringify(value, null, 2)
  return (
    <>
      <pre tabIndex={0}>{text.slice(0, MAX_SHOWN)}</pre>
      {text.length > MAX_SHOWN && <p class='hint'>The first {formatBytes(MAX_SHOWN)} of {formatBytes(text.length)}.</p>}
    </>
  )
}
