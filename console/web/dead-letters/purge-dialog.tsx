import { useEffect, useState } from 'preact/hooks'
import { useAttempt } from '../confirm.tsx'
import { formatCount, formatCounted } from '../format.ts'
import { Dialog, Failed } from '../states.tsx'
import { countPurge, type Filter, purge, purgeLetter, type PurgeResult } from './dead-letters.ts'

/** What has to be typed: nobody does that by accident. */
const WORD = 'purge'

/** Deletes dead letters for good, after their number was seen and a word was typed. */
export function PurgeDialog (
  { what, onClose, onDone }: { what: Filter | { id: number }, onClose: () => void, onDone: () => void }
) {
  const [expected, setExpected] = useState<number | undefined>('id' in what ? 1 : undefined)
  const [typed, setTyped] = useState('')
  const [result, setResult] = useState<PurgeResult>()
  const { isBusy, error, attempt } = useAttempt()
  const count = async (): Promise<void> => {
    if ('id' in what) return
    await attempt(async () => { setExpected((await countPurge(what)).matched) })
  }
  const confirm = async (): Promise<void> => {
    await attempt(async () => {
      if ('id' in what) setResult(await purgeLetter(what.id))
      else if (expected !== undefined) setResult(await purge(what, expected))
    })
  }
  useEffect(() => { void count() }, [])

  const close = (): void => {
    onClose()
    if (result !== undefined) onDone()
  }
  return (
    <Dialog title='Purge dead letters' onClose={close}>
      {error !== undefined && <Failed error={error} onRetry={() => { void (expected === undefined ? count() : confirm()) }} />}
      <p role='status'>
        {result !== undefined
          ? `${formatCount(result.purged)} purged.`
          : expected === undefined
            ? error === undefined && 'Counting …'
            : expected === 0 ? 'None is left to purge.' : `${formatCounted(expected, 'dead letter')} would be deleted for good: the events in them are lost.`}
      </p>
      {result === undefined && expected !== undefined && expected > 0 && (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            if (typed === WORD && !isBusy) void confirm()
          }}
        >
          <label>
            Type <code>{WORD}</code> to go on
            <input value={typed} autocomplete='off' onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
          <p class='actions'>
            <button type='button' onClick={close}>Cancel</button>
            <button type='submit' class='primary danger' disabled={isBusy || typed !== WORD}>Purge {formatCount(expected)}</button>
          </p>
        </form>
      )}
      {(result !== undefined || expected === 0) && <p class='actions'><button type='button' onClick={close}>Close</button></p>}
    </Dialog>
  )
}
