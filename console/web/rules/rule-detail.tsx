import { useState } from 'preact/hooks'
import { Ask, Confirm } from '../confirm.tsx'
import { type Content, StoreDraft, useDraftBase } from '../drafts/draft-base.tsx'
import { writeJson } from '../drafts/json-text.ts'
import { ActiveVersion, Versions } from '../drafts/version-parts.tsx'
import { formatAgo, formatCount, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Show } from '../states.tsx'
import { contentOf, describePrediction, describeRule, describeState, type EventRule, type RulePrediction, type RuleVersion } from './event-rules.ts'
import { RuleCheck } from './rule-check.tsx'
import { useRuleDraft } from './rule-draft.ts'
import { RuleEditor, RuleTests } from './rule-editor.tsx'
import { changeRule, deleteRule, fetchCounts, fetchRule, fetchVersions } from './rule-requests.ts'

/** One rule: what it does, its draft beside what is enforced, its tests, what the draft would do, and all versions. */
export function RuleDetail ({ id }: { id: string }) {
  const loaded = useLoaded(`rule ${projectId.value} ${id}`, async (signal) => {
    const [rule, { results: versions }] = await Promise.all([fetchRule(id, signal), fetchVersions(id, signal)])
    return { rule, versions }
  })
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/rules`)}>Rules</a></p>
      <Show of={loaded} what='The rule'>{(value) => <RulePage {...value} reload={loaded.reload} />}</Show>
    </section>
  )
}

interface RulePageProps { rule: EventRule, versions: readonly RuleVersion[], reload: () => void }

type Open = { what: 'activate', version: number } | { what: 'disable' | 'delete' }

function RulePage ({ rule, versions, reload }: RulePageProps) {
  const mayWrite = may('event_definition:write')
  const draft = useRuleDraft(writeJson(contentOf(rule)))
  const [prediction, setPrediction] = useState<RulePrediction>()
  const [open, setOpen] = useState<Open>()
  const change = (text: string): void => {
    draft.change(text)
    setPrediction(undefined)
  }
  const store = async (version: number): Promise<Content | undefined> => {
    const content = draft.read()
    if (content === undefined) return undefined
    const stored = await draft.explain(async () => await changeRule(rule.id, { ...content, version }))
    return stored === undefined ? undefined : { version: stored.version, content: contentOf(stored) }
  }
  const storing = useDraftBase({ version: rule.version, content: contentOf(rule) }, { says: draft.says, change, store, reload })
  const isNewest = storing.isStored && storing.base.version === rule.version
  const contents = versions.map((version) => ({ ...version, content: contentOf(version) }))

  return (
    <>
      <h1>{showText(rule.name, 100)}</h1>
      {rule.description !== '' && <p>{showText(rule.description, 3000)}</p>}
      <Facts rule={rule} enforced={versions.find(({ version }) => version === rule.active_version)} />
      {mayWrite && (
        <p class='toolbar'>
          <button type='button' class={isNewest && rule.active_version !== rule.version ? 'primary' : ''} onClick={() => setOpen({ what: 'activate', version: rule.version })}>Activate …</button>
          {rule.active_version !== null && <button type='button' onClick={() => setOpen({ what: 'disable' })}>Disable …</button>}
          <button type='button' onClick={() => setOpen({ what: 'delete' })}>Delete …</button>
        </p>
      )}
      <div class='beside'>
        <div>
          <h2>Draft</h2>
          <RuleEditor text={draft.text} onText={change} error={draft.wrong} isReadOnly={!mayWrite} />
          {mayWrite && <StoreDraft draft={storing} versions={contents} />}
        </div>
        <ActiveVersion active={rule.active_version} versions={contents} text={draft.text} whenNone='No version is active: the rule does nothing.' />
      </div>
      <RuleTests text={draft.text} wereTried={isNewest || prediction !== undefined} failing={draft.failing} />
      {may('event:read') && <RuleCheck id={rule.id} draft={draft} prediction={prediction} onPrediction={setPrediction} />}
      <Versions
        active={rule.active_version} versions={contents} mayWrite={mayWrite}
        onDraft={change} onActivate={(version) => setOpen({ what: 'activate', version })}
      />
      {open !== undefined && (
        <RuleDialog
          rule={rule} versions={versions} open={open} prediction={isNewest ? prediction : undefined}
          onClose={() => setOpen(undefined)} onDone={reload}
        />
      )}
    </>
  )
}

/** What is enforced, and what it did. */
function Facts ({ rule, enforced }: { rule: EventRule, enforced: RuleVersion | undefined }) {
  const counts = useLoaded(`rule counts ${projectId.value}`, async (signal) => await fetchCounts(7, signal))
  const found = counts.value?.get(rule.id)
  return (
    <dl class='facts'>
      <div>
        <dt>Enforced</dt>
        <dd>{describeState(rule)}{enforced !== undefined && `: ${showText(describeRule(enforced), 1000)}`}</dd>
      </div>
      <div>
        <dt>In 7 days</dt>
        <dd>{counts.error !== undefined
          ? `unknown: ${counts.error.message}`
          : counts.value !== undefined && `${formatCount(found?.dropped ?? 0)} dropped, ${formatCount(found?.sampled ?? 0)} sampled out, ${formatCount(found?.changed ?? 0)} changed`}
        </dd>
      </div>
      <div><dt>Newest</dt><dd>version {rule.version}, changed {formatAgo(rule.updated_at, Date.now())}</dd></div>
    </dl>
  )
}

interface RuleDialogProps {
  rule: EventRule
  versions: readonly RuleVersion[]
  open: Open
  /** What the check found for the newest version; undefined: it was not checked here. */
  prediction: RulePrediction | undefined
  onClose: () => void
  onDone: () => void
}

function RuleDialog ({ rule, versions, open, prediction, onClose, onDone }: RuleDialogProps) {
  if (open.what === 'delete') {
    return (
      <Confirm
        title='Delete the rule' word='delete' action='Delete' onClose={onClose}
        onConfirm={async () => {
          await deleteRule(rule.id)
          navigate(`/projects/${projectId.value}/rules`)
        }}
      >
        <p>It is no longer enforced, and leaves the list. To stop enforcing it, disable it instead.</p>
      </Confirm>
    )
  }
  const version = open.what === 'activate' ? open.version : null
  const content = versions.find((each) => each.version === version)
  const change = async (): Promise<void> => {
    await changeRule(rule.id, { active_version: version })
    onDone()
  }
  if (version === null) {
    return (
      <Ask title='Disable' action='Disable' onClose={onClose} onConfirm={change}>
        <p>From then on it does nothing: what it kept out is stored.</p>
      </Ask>
    )
  }
  return (
    <Ask title='Activate' action={`Activate version ${version}`} onClose={onClose} onConfirm={change}>
      {content !== undefined && <p>{showText(describeRule(content), 1000)}</p>}
      <p class='hint'>{prediction !== undefined && version === rule.version ? describePrediction(prediction) : 'This version was not checked by stored events here.'}</p>
    </Ask>
  )
}
