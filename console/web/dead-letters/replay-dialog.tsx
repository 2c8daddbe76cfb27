import { useEffect, useState } from 'preact/hooks'
import { useAttempt } from '../confirm.tsx'
import { formatCount, formatCounted } from '../format.ts'
import { Dialog, Failed } from '../states.tsx'
import { type Filter, replay, REPLAY_LIMIT, type ReplayResult } from './dead-letters.ts'

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
      <p class='hint'>Each keeps its id: an event that is stored already is not counted twice. What fails again returns as a new dead letter.</p>
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
  if (matched === 0) return 'None is left to replay.'
  const more = matched >= REPLAY_LIMIT ? ` At most ${formatCount(REPLAY_LIMIT)} go at once; repeat it for the rest.` : ''
  return `${formatCounted(matched, 'dead letter')} would be published to the stream again.${more}`
}

function describeResult ({ replayed, skipped }: ReplayResult): string {
  const kept = skipped === 0 ? '' : ` ${skipped === 1 ? '1 was kept, because it does not say where it' : `${formatCount(skipped)} were kept, because they do not say where they`} came from.`
  return `${formatCount(replayed)} replayed.${kept}`
}
