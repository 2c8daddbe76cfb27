import { useState } from 'preact/hooks'
import type { Answer } from '../../../schema/api-types.ts'
import { request } from '../api-client.ts'
import { Copyable, useAttempt } from '../confirm.tsx'
import { showText } from '../format.ts'
import { useAnswer } from '../load.ts'
import { Dialog, Failed, Select, Show, Time } from '../states.tsx'

const DAY_MS = 86_400_000

/** Links to a board for people without a key: made, listed, ended. */
export function ShareDialog ({ path, onClose }: { path: string, onClose: () => void }) {
  const [days, setDays] = useState('0')
  const [made, setMade] = useState<string>()
  const links = useAnswer<Answer<'/api/projects/{project_id}/boards/{id}/links'>>(path)
  const { isBusy, error, attempt } = useAttempt()
  const create = async (): Promise<void> => {
    const expires = days === '0' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    const { value } = await request<{ value: string }>(path, { method: 'POST', body: { expires_at: expires } })
    setMade(`${location.origin}/console/shared#${value}`)
    links.reload()
  }
  const end = async (id: number): Promise<void> => {
    await request(`${path}/${id}`, { method: 'DELETE' })
    setMade(undefined)
    links.reload()
  }
  return (
    <Dialog title='Share the board' onClose={onClose}>
      <p class='hint'>
        Whoever has the link sees this board alone, also as it changes. A saved query shows if it is on it now, stays unchanged, and your key may run SQL.
      </p>
      <div class='toolbar'>
        <Select label='The link works' value={days} options={[['0', 'until you end it here'], ['1', 'for a day'], ['7', 'for a week'], ['30', 'for 30 days']]} onChange={setDays} />
        <button type='button' class='primary' aria-disabled={isBusy} onClick={() => { if (!isBusy) void attempt(create) }}>Make a link</button>
      </div>
      {error !== undefined && <Failed error={error} onRetry={() => { void attempt(create) }} />}
      {made !== undefined && <><p role='status'>The link, shown this once:</p><Copyable text={made} label='Link' /></>}
      <Show of={links} what='Links'>
        {({ results }) => (
          <ul class='names'>
            {results.map(({ id, mask_value: mask, created_by: by, created_at: at, expires_at: ends }) => (
              <li key={id} class='toolbar'>
                <code>{mask}</code>
                <span class='hint'>{showText(by?.email ?? 'nobody', 60)}, <Time at={at} isZoned />; {ends === null ? 'no end' : <>until <Time at={ends} isZoned /></>}</span>
                <button type='button' onClick={() => { void attempt(async () => await end(id)) }}>End<span class='hidden'> {mask}</span></button>
              </li>
            ))}
          </ul>
        )}
      </Show>
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
