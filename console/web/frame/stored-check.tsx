/** The check of a draft against stored events: of which events, how far it is, and what it found. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useAttempt } from '../confirm.tsx'
import { formatCount } from '../format.ts'
import { Failed, Select, SelectDays } from '../states.tsx'
import type { AskedEvents, CheckFollower } from './definition-requests.ts'

const LIMITS = [100_000, 1_000_000, 10_000_000, 100_000_000]

interface StoredCheckProps {
  hint: string
  /** Content of the editor; a change of it ends the check. */
  text: string
  limit: number
  /** Checks the current draft. Errors of the draft are shown in the editor. */
  check: (events: AskedEvents, follower: CheckFollower) => Promise<void>
  children: ComponentChildren
}

export function StoredCheck ({ hint, text, limit: initialLimit, check, children }: StoredCheckProps) {
  const [days, setDays] = useState(7)
  const [limit, setLimit] = useState(initialLimit)
  const [progress, setProgress] = useState<{ checked: number, total: number }>()
  const running = useRef<AbortController>(undefined)
  const { isBusy, error, attempt } = useAttempt()
  // Nobody waits for it after leaving, and another draft is not what was asked about.
  useEffect(() => () => running.current?.abort(), [text])

  const start = async (): Promise<void> => {
    const { signal } = running.current = new AbortController()
    setProgress(undefined)
    await attempt(async () => {
      try {
        await check({ days, limit }, { onProgress: (checked, total) => setProgress({ checked, total }), signal })
      } catch (cause) {
        if (!signal.aborted) throw cause
      }
    })
  }
  return (
    <>
      <h2>Check against stored events</h2>
      <p class='hint'>{hint}</p>
      <div class='toolbar'>
        <SelectDays label='Events of' value={days} disabled={isBusy} onChange={setDays} />
        <Select
          label='at most' value={limit} disabled={isBusy} options={LIMITS.map((each) => [each, formatCount(each)] as const)}
          onChange={(value) => setLimit(Number(value))}
        />
        {isBusy
          ? <button type='button' onClick={() => running.current?.abort()}>Stop</button>
          : <button type='button' onClick={() => { void start() }}>Check the draft</button>}
      </div>
      {isBusy && <Running progress={progress} />}
      {error !== undefined && <Failed error={error} onRetry={() => { void start() }} />}
      <div role='status'>{children}</div>
    </>
  )
}

function Running ({ progress }: { progress: { checked: number, total: number } | undefined }) {
  return (
    <p class='progress'>
      <progress aria-label='Checked events' value={progress?.checked} max={progress === undefined ? undefined : Math.max(1, progress.total)} />{' '}
      {progress === undefined ? 'Counting events …' : `${formatCount(progress.checked)} of ${formatCount(progress.total)} events`}
    </p>
  )
}
