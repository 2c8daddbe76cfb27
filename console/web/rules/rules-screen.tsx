import { useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { showText, UNKNOWN } from '../format.ts'
import { type Column, Rows } from '../frame/lists.tsx'
import { type Loaded, useAnswer, useLoaded } from '../load.ts'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Failed, OnOff, SelectDays, Show } from '../states.tsx'
import { describeRule, describeState, type EventRule, planMove, type RuleCounts } from './event-rules.ts'
import { REQUESTS, RULE_SCREEN } from './rule-detail.tsx'
import { DefinitionDetail, NewDefinition } from '../frame/definition-screen.tsx'

const DAYS = [1, 7, 30, 90]

const MAX_RULES = 200

/** All rules of the project, in the order in which they run. */
const useRules = () => useAnswer<Page<EventRule>>(REQUESTS.path(), { limit: MAX_RULES })

/**
 * Rules that drop or change events before they are stored: all of them in order, one (`/<id>`, or `?name=`, as
 * receipts name it), and a new one (`/new`).
 */
export function RulesScreen () {
  const id = path.value[3]
  const name = query.value.get('name')
  if (id === 'new' && may('event_definition:write')) return <NewDefinition screen={RULE_SCREEN} texts={{ name: '', description: '' }} />
  if (id !== undefined) return <DefinitionDetail key={id} screen={RULE_SCREEN} id={id} />
  return name === null ? <RuleList /> : <RuleOfName key={name} name={name} />
}

/** A rule that was deleted meanwhile has no page: the others are shown, which may have taken its place. */
function RuleOfName ({ name }: { name: string }) {
  return (
    <Show of={useRules()} what='The rule'>
      {({ results }) => {
        const rule = results.find((each) => each.name === name)
        return rule === undefined
          ? <><p role='status'>The rule <strong>{showText(name, 100)}</strong> no longer exists.</p><RuleList /></>
          : <DefinitionDetail screen={RULE_SCREEN} id={String(rule.id)} />
      }}
    </Show>
  )
}

function RuleList () {
  const days = Number(query.value.get('days') ?? 7)
  const rules = useRules()
  const counts = useLoaded(`rule counts ${projectId.value} ${days}`, async (signal) => await REQUESTS.counts(days, signal))
  return (
    <section>
      <h1>Rules</h1>
      <p class='hint'>Rules drop, sample or change events before they are stored. They run in this order, each on the output of the previous one.</p>
      <div class='toolbar'>
        <SelectDays label='Counts of' value={days} of={DAYS} onChange={(value) => setQuery({ days: String(value) })} />
        {may('event_definition:write') && <a class='button' {...linkTo(`/projects/${projectId.value}/rules/new`)}>New rule</a>}
      </div>
      {counts.error !== undefined && <Failed error={counts.error} onRetry={counts.reload} />}
      <Show of={rules} what='Rules'>
        {({ results }) => results.length === 0
          ? <Empty><p>There are no rules yet: events are stored as sent.</p></Empty>
          : <RuleTable rules={results} counts={counts} onMoved={rules.reload} />}
      </Show>
    </section>
  )
}

function RuleTable ({ rules, counts, onMoved }: { rules: readonly EventRule[], counts: Loaded<ReadonlyMap<number, RuleCounts>>, onMoved: () => void }) {
  const mayWrite = may('event_definition:write')
  const [moved, setMoved] = useState('')
  const { isBusy, error, attempt } = useAttempt()
  const move = async ({ id: moved, name }: EventRule, by: -1 | 1): Promise<void> => {
    await attempt(async () => {
      // Others may have been moved elsewhere since they were shown.
      const { results } = await request<Page<EventRule>>(REQUESTS.path(), { query: { limit: MAX_RULES } })
      const from = results.findIndex(({ id }) => id === moved)
      const changes = planMove(results, from, by)
      for (const { id, position } of changes) await REQUESTS.change(id, { position })
      setMoved(changes.length === 0 ? '' : `${showText(name, 60)} runs ${by === 1 ? 'later' : 'earlier'} now: place ${from + by + 1} of ${results.length}.`)
    })
    // Also after a failure: some may have moved.
    onMoved()
  }
  const count = (title: string, what: 'dropped' | 'sampled' | 'changed'): Column<EventRule> =>
    [title, ({ id }) => counts.value === undefined ? UNKNOWN : counts.value.get(id)?.[what] ?? 0]
  return (
    <>
      {error !== undefined && <Failed error={error} onRetry={onMoved} />}
      <p class='hidden' role='status'>{moved}</p>
      <Rows
        label='Rules' of={rules} keyOf={({ id }) => id} styleOf={({ active_version: active }) => active === null ? 'gone' : ''}
        columns={[
          ['#Place', (_, index) => index + 1],
          ['Rule', (rule) => (
            <>
              <a {...linkTo(`/projects/${projectId.value}/rules/${rule.id}`)}>{showText(rule.name, 100)}</a>
              <div class='hint'>{showText(describeRule(rule), 300)}</div>
            </>
          ), 'wide'],
          ['On', (rule) => <OnOff isOn={rule.active_version !== null}>{describeState(rule)}</OnOff>],
          count('#Dropped', 'dropped'), count('#Sampled out', 'sampled'), count('#Changed', 'changed'),
          mayWrite && ['-Order', (rule, index) => (
            <>
              <Move label={`Run ${showText(rule.name, 60)} earlier`} sign='↑' isOff={isBusy || index === 0} onMove={() => { void move(rule, -1) }} />{' '}
              <Move label={`Run ${showText(rule.name, 60)} later`} sign='↓' isOff={isBusy || index === rules.length - 1} onMove={() => { void move(rule, 1) }} />
            </>
          )]
        ]}
      />
    </>
  )
}

/** Stays in the order of the keyboard also where it does nothing, so that the focus is not lost on the way. */
function Move ({ label, sign, isOff, onMove }: { label: string, sign: string, isOff: boolean, onMove: () => void }) {
  return <button type='button' aria-label={label} aria-disabled={isOff} onClick={() => { if (!isOff) onMove() }}>{sign}</button>
}
