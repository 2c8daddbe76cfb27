import { useEffect, useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Confirm, useAttempt } from '../confirm.tsx'
import { formatCount, formatCounted } from '../format.ts'
import { useLoaded } from '../load.ts'
import { Dialog, Failed, Show } from '../states.tsx'
import { base, type Filter, purge, replay, REPLAY_LIMIT, type ReplayResult } from './dead-letter-requests.ts'

/** Deletes dead letters for good, after their number was seen and a word was typed. */
export function PurgeDialog (
  { what, onClose, onDone }: { what: Filter | { id: number }, onClose: () => void, onDone: () => void }
) {
  const counted = useLoaded(`to purge ${JSON.stringify(what)}`, async () => 'id' in what ? 1 : (await purge(what)).matched)
  const confirm = async (): Promise<void> => {
    if ('id' in what) await request(`${base()}/${what.id}`, { method: 'DELETE' })
    else if (counted.value !== undefined && counted.value > 0) await purge(what, counted.value)
  }
  return (
    <Confirm title='Purge dead letters' word='purge' action={`Purge ${formatCount(counted.value)}`} onConfirm={confirm} onDone={onDone} onClose={onClose}>
      <Show of={counted} what='How many there are'>
        {(count) => <p>{formatCounted(count, 'dead letter')} will be permanently deleted, including their events.</p>}
      </Show>
    </Confirm>
  )
}

/** Says first what a replay would take, replays when asked to, and says what it did. */
export function ReplayDialog ({ filter, onClose, onDone }: { filter: Filter, onClose: () => void, onDone: () => void }) {
  const [expected, setExpected] = useState<ReplayResult>()
  const [result, setResult] = useState<ReplayResult>()
  const { isBusy, error, attempt } = useAttempt()
  const count = async (): Promise<void> => {
    await attempt(async () => { setExpected(await replay(filter, true)) })
  }
  const send = async (): Promise<void> => {
    await attempt(async () => {
      setResult(await replay(filter))
      onDone()
    })
  }
  useEffect(() => { void count() }, [])

  return (
    <Dialog title='Replay dead letters' onClose={onClose}>
      {error !== undefined && <Failed error={error} onRetry={() => { void (expected === undefined ? count() : send()) }} />}
      <p role='status'>
        {result !== undefined
          ? describeResult(result)
          : expected === undefined
            ? error === undefined && 'Counting …'
            : describeExpected(expected)}
      </p>
      <p class='hint'>Each keeps its id, so stored events are not counted twice. Replays that fail create new dead letters.</p>
      <p class='actions'>
        <button type='button' onClick={onClose}>{result === undefined ? 'Cancel' : 'Close'}</button>
        {result === undefined && (
          <button type='button' class='primary' disabled={isBusy || expected === undefined || expected.matched === 0} onClick={() => { void send() }}>Replay</button>
        )}
      </p>
    </Dialog>
  )
}

function describeExpected ({ matched }: ReplayResult): string {
  if (matched === 0) return 'Nothing is left to replay.'
  const more = matched >= REPLAY_LIMIT ? ` At most ${formatCount(REPLAY_LIMIT)} go at once; repeat it for the rest.` : ''
  return `${formatCounted(matched, 'dead letter')} would be published to the stream again.${more}`
}

function describeResult ({ replayed, skipped }: ReplayResult): string {
  const kept = skipped === 0 ? '' : ` ${skipped === 1 ? '1 was kept, because it does not say where it' : `${formatCount(skipped)} were kept, because they do not say where they`} came from.`
  return `${formatCount(replayed)} replayed.${kept}`
}
