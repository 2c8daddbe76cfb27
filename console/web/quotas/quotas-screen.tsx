import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { formatAgo, formatTime } from '../format.ts'
import { useLoaded } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Show } from '../states.tsx'
import { describeBeyond, describeLimits, describeMonth, type Quota } from './quota.ts'
import { QuotaForm } from './quota-form.tsx'
import { UsageView } from './usage-view.tsx'

/** The month goes on: it is asked for again so often, in milliseconds. */
const EVERY_MS = 15_000

/** How much a project may send and what happens beyond it, and what it sent. */
export function QuotasScreen () {
  const path = `/api/projects/${projectId.value}/quota/`
  const quota = useLoaded(path, async (signal) => await request<Quota>(path, { signal }), { everyMs: EVERY_MS })
  const [open, setOpen] = useState<'form' | 'removal'>()
  const close = (): void => setOpen(undefined)
  return (
    <section>
      <h1>Usage and quota</h1>
      <Show of={quota} what='The quota'>
        {(value) => (
          <>
            <QuotaFacts quota={value} />
            {may('project:write') && (
              <p class='toolbar'>
                <button type='button' onClick={() => setOpen('form')}>{value.updated_at === null ? 'Set a quota …' : 'Change the quota …'}</button>
                {value.updated_at !== null && <button type='button' onClick={() => setOpen('removal')}>Remove the quota …</button>}
              </p>
            )}
            {open === 'form' && <QuotaForm quota={value} path={path} onClose={close} onDone={quota.reload} />}
            {open === 'removal' && (
              <Ask
                title='Remove the quota' action='Remove' onClose={close}
                onConfirm={async () => {
                  await request(path, { method: 'DELETE' })
                  quota.reload()
                }}
              >
                <p>The project may send as much as ingest takes, within a second from then on.</p>
              </Ask>
            )}
          </>
        )}
      </Show>
      <UsageView />
    </section>
  )
}

function QuotaFacts ({ quota }: { quota: Quota }) {
  const month = describeMonth(quota)
  const { events_per_month: limit, month: measured, updated_at: changedAt } = quota
  return (
    <dl class='facts'>
      <div><dt>Quota</dt><dd>{describeLimits(quota)}</dd></div>
      {changedAt !== null && <div><dt>Beyond it</dt><dd>{describeBeyond(quota)}</dd></div>}
      {month !== null && (
        <div>
          <dt>This month</dt>
          <dd class={measured?.exceeded === true ? 'error' : ''}>
            {measured !== null && limit !== null && <><meter aria-label='Share of the month' max={limit} high={limit * 0.9} value={Math.min(limit, measured.events)} />{' '}</>}{month}
          </dd>
        </div>
      )}
      {changedAt !== null && <div><dt>Changed</dt><dd title={`${formatTime(changedAt)} UTC`}>{formatAgo(changedAt, Date.now())}</dd></div>}
    </dl>
  )
}
