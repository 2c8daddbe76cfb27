import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask, FormDialog } from '../confirm.tsx'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Ago, Choices, Facts, Show } from '../states.tsx'
import {
  changesOf, describeBeyond, describeLimits, describeMonth, fieldsOf, type Quota, type QuotaFields
} from './quota.ts'
import { UsageView } from './usage-view.tsx'

/** The month goes on: it is asked for again so often, in milliseconds. */
const EVERY_MS = 15_000

export function QuotasScreen () {
  const path = `/api/projects/${projectId.value}/quota/`
  const quota = useAnswer<Quota>(path, {}, { everyMs: EVERY_MS })
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
              <Ask title='Remove the quota' action='Remove' onClose={close} onConfirm={async () => await request(path, { method: 'DELETE' })} onDone={quota.reload}>
                <p>The quota is removed within a second. The default limit of the installation then applies, if set.</p>
              </Ask>
            )}
          </>
        )}
      </Show>
      {(quota.value ?? quota.error) !== undefined && <UsageView />}
    </section>
  )
}

function QuotaFacts ({ quota }: { quota: Quota }) {
  const month = describeMonth(quota)
  const { events_per_month: limit, month: measured, updated_at: changedAt } = quota
  const meter = measured !== null && limit !== null && <meter aria-label='Share of the month' max={limit} high={limit * 0.9} value={Math.min(limit, measured.events)} />
  return (
    <Facts
      of={{
        Quota: describeLimits(quota),
        'Beyond it': changedAt !== null && describeBeyond(quota),
        'This month': month !== null && <span class={measured?.exceeded === true ? 'error' : ''}>{meter} {month}</span>,
        Changed: changedAt !== null && <Ago at={changedAt} />
      }}
    />
  )
}

interface QuotaFormProps {
  quota: Quota
  path: string
  onClose: () => void
  onDone: () => void
}

/** Sets, changes and takes away limits. */
function QuotaForm ({ quota, path, ...dialog }: QuotaFormProps) {
  // As it was when the form was opened: the screen behind it reads on.
  const [before] = useState(() => fieldsOf(quota))
  const [fields, setFields] = useState(before)
  const changes = changesOf(before, fields)
  const field = (name: keyof QuotaFields, label: string, hint: string, most?: number) => (
    <div>
      <label>
        {label}
        <input
          type='number' min={name === 'sample_rate' ? 0.01 : 1} max={most} step={name === 'sample_rate' ? 'any' : 1} value={fields[name]} aria-describedby={`hint-${name}`}
          onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
        />
      </label>
      <span id={`hint-${name}`} class='hint'>{hint}</span>
    </div>
  )
  const beyond = (each: Quota['beyond']): string => describeBeyond({ beyond: each, sample_rate: Number(fields.sample_rate) / 100 || quota.sample_rate })
  return (
    <FormDialog
      title={quota.updated_at === null ? 'Set a quota' : 'Change the quota'} action='Save' isReady={Object.keys(changes).length > 0}
      onConfirm={async () => await request(path, { method: 'PATCH', body: changes })} {...dialog}
    >
      {field('events_per_second', 'Events a second', 'Of each ingest process. Empty: no limit.')}
      {field('burst', 'Events at once, after a silence', "Empty: ten seconds' worth.")}
      {field('events_per_month', 'Events a calendar month (UTC)', 'Of all processes. Empty: no limit.')}
      <Choices
        legend='Beyond it' chosen={fields.beyond} onChange={(chosen) => setFields({ ...fields, beyond: chosen === 'sample' ? chosen : 'reject' })}
        of={{ reject: beyond('reject'), sample: beyond('sample') }}
      />
      {fields.beyond === 'sample' && field('sample_rate', 'Share of all distinct ids, in percent', 'Smaller samples are subsets of larger ones.', 99.99)}
    </FormDialog>
  )
}
