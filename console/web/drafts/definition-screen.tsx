/** The frame of the screens of rules and event schemas: one of them with its draft and versions, and a new one. */
import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Ask, Confirm, useAttempt } from '../confirm.tsx'
import { showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Failed, Form, Show } from '../states.tsx'
import { type ContentDraft, useContentDraft } from './content-draft.ts'
import type { AskedEvents, Checked, CheckFollower, Definition, DefinitionRequests, DefinitionVersion } from './definition-requests.ts'
import { type Content, StoreDraft, useDraftBase } from './draft-base.tsx'
import { type DraftLanguage, writeJson } from './json-text.ts'
import { StoredCheck } from './stored-check.tsx'
import { useUnsaved } from './unsaved.tsx'
import { ActiveVersion, Versions } from './version-parts.tsx'
import { Title } from '../title.tsx'

/** What the screens of a kind say and show in their own way. */
export interface DefinitionScreen<D extends Definition, V extends DefinitionVersion, Prediction extends Checked> {
  noun: 'rule' | 'schema'
  /** The last part of the path of the list, and its title. */
  home: string
  title: string
  requests: DefinitionRequests<D, V, any, Prediction>
  language: DraftLanguage
  nameOf: (definition: D) => string
  /** Said when no version is active, and in the dialog that disables it. */
  whenNone: string
  whenDisabled: string
  Facts: (props: { definition: D, versions: readonly V[] }) => JSX.Element
  Editor: (props: { name: string, draft: ContentDraft, isReadOnly: boolean }) => JSX.Element
  check: { hint: string, limit: number }
  Found: (props: { prediction: Prediction, definition: D }) => JSX.Element
  Activate: (props: ActivateProps<D, V, Prediction>) => JSX.Element
  /** Changes what does not make a version. */
  notes: { title: string, Dialog: (props: DialogProps<D>) => JSX.Element } | null
}

export interface DialogProps<D> {
  definition: D
  onClose: () => void
  onDone: () => void
}

export interface ActivateProps<D, V, Prediction> extends DialogProps<D> {
  versions: readonly V[]
  /** The version that is offered. */
  version: number
  /** What the check found for the newest version; undefined: it was not checked here. */
  prediction: Prediction | undefined
}

/** One definition: the enforced version, the draft, its predicted effect, and all versions. */
export function DefinitionDetail<D extends Definition, V extends DefinitionVersion, P extends Checked> (
  { screen, id }: { screen: DefinitionScreen<D, V, P>, id: string }
) {
  const { requests, noun } = screen
  const loaded = useLoaded(`${noun} ${projectId.value} ${id}`, async (signal) => {
    const [definition, versions] = await Promise.all([requests.find(id, signal), requests.versions(id, signal)])
    return { definition, versions }
  })
  return (
    <section>
      <p><a {...linkTo(homeOf(screen))}>{screen.title}</a></p>
      <Show of={loaded} what={`The ${noun}`}>{(value) => <Detail screen={screen} {...value} reload={loaded.reload} />}</Show>
    </section>
  )
}

interface DetailProps<D extends Definition, V extends DefinitionVersion, P extends Checked> {
  screen: DefinitionScreen<D, V, P>
  definition: D
  versions: readonly V[]
  reload: () => void
}

type Open = { what: 'activate', version: number } | { what: 'disable' | 'delete' | 'notes' }

function Detail<D extends Definition, V extends DefinitionVersion, P extends Checked> ({ screen, definition, versions, reload }: DetailProps<D, V, P>) {
  const { language: { contentOf }, requests, Facts, Editor, Found, notes } = screen
  const { id, version: newest, active_version: active } = definition
  const mayWrite = may('event_definition:write')
  const [prediction, setPrediction] = useState<P>()
  const [open, setOpen] = useState<Open>()
  // What was predicted is of the draft as it was.
  const draft = useContentDraft(writeJson(contentOf(definition)), screen.language, () => setPrediction(undefined))
  const { change } = draft
  const store = async (version: number): Promise<Content | undefined> => {
    const fields = draft.read()
    if (fields === undefined) return undefined
    const stored = await draft.explain(async () => await requests.change(id, { ...fields, version }))
    return stored === undefined ? undefined : { version: stored.version, content: contentOf(stored) }
  }
  const storing = useDraftBase({ version: newest, content: contentOf(definition) }, { says: draft.says, change, store, reload })
  const check = async (events: AskedEvents, follower: CheckFollower): Promise<void> => {
    const fields = draft.read()
    if (fields === undefined) return
    setPrediction(undefined)
    setPrediction(await draft.explain(async () => await requests.check(id, { ...fields, ...events }, follower)))
  }
  const isNewest = storing.isStored && storing.base.version === newest
  const contents = versions.map((version) => ({ ...version, content: contentOf(version) }))
  const activate = (version: number): void => setOpen({ what: 'activate', version })

  return (
    <>
      <Title name={screen.nameOf(definition)} />
      {definition.description !== '' && <p>{showText(definition.description, 3000)}</p>}
      <Facts definition={definition} versions={versions} />
      {mayWrite && (
        <p class='toolbar'>
          <button type='button' class={isNewest && active !== newest ? 'primary' : ''} onClick={() => activate(newest)}>Activate …</button>
          {active !== null && <button type='button' onClick={() => setOpen({ what: 'disable' })}>Disable …</button>}
          {notes !== null && <button type='button' onClick={() => setOpen({ what: 'notes' })}>{notes.title} …</button>}
          <button type='button' onClick={() => setOpen({ what: 'delete' })}>Delete …</button>
        </p>
      )}
      <div class='beside'>
        <div>
          <h2>Draft</h2>
          <Editor name={screen.nameOf(definition)} draft={draft} isReadOnly={!mayWrite} />
          {mayWrite && <StoreDraft draft={storing} versions={contents} />}
        </div>
        <ActiveVersion active={active} versions={contents} text={draft.text} whenNone={screen.whenNone} />
      </div>
      {may('event:read') && (
        <StoredCheck text={draft.text} {...screen.check} check={check}>
          {prediction !== undefined && <Found prediction={prediction} definition={definition} />}
        </StoredCheck>
      )}
      <Versions active={active} versions={contents} mayWrite={mayWrite} onDraft={change} onActivate={activate} />
      {open !== undefined && (
        <OpenDialog
          screen={screen} definition={definition} versions={versions} open={open} prediction={isNewest ? prediction : undefined}
          onClose={() => setOpen(undefined)} onDone={reload}
        />
      )}
    </>
  )
}

interface OpenDialogProps<D extends Definition, V extends DefinitionVersion, P extends Checked> extends Omit<ActivateProps<D, V, P>, 'version'> {
  screen: DefinitionScreen<D, V, P>
  open: Open
}

function OpenDialog<D extends Definition, V extends DefinitionVersion, P extends Checked> ({ screen, open, ...props }: OpenDialogProps<D, V, P>) {
  const { requests, noun, Activate, notes } = screen
  const { definition: { id }, onClose, onDone } = props
  switch (open.what) {
    case 'activate': return <Activate {...props} version={open.version} />
    case 'notes': return notes === null ? null : <notes.Dialog {...props} />
    case 'disable': {
      const disable = async () => await requests.change(id, { active_version: null })
      return <Ask title='Disable' action='Disable' onClose={onClose} onConfirm={disable} onDone={onDone}><p>{screen.whenDisabled}</p></Ask>
    }
    case 'delete': return (
      <Confirm
        title={`Delete the ${noun}`} word='delete' action='Delete' onClose={onClose} onConfirm={async () => await requests.remove(id)}
        onDone={() => navigate(homeOf(screen))}
      >
        <p>It is no longer enforced and disappears from the list. To only stop enforcing it, disable it instead.</p>
      </Confirm>
    )
  }
}

interface NewDefinitionProps<D extends Definition, V extends DefinitionVersion, P extends Checked> {
  screen: DefinitionScreen<D, V, P>
  action: string
  /** The content that the editor begins with. */
  example: unknown
  /** The other fields of the request, and the inputs for them. */
  fields: object
  inputs: ComponentChildren
  name: string
  isTouched: boolean
}

/** A definition with its first version. It is not enforced by being stored. */
export function NewDefinition<D extends Definition, V extends DefinitionVersion, P extends Checked> (
  { screen, action, example, fields, inputs, name, isTouched }: NewDefinitionProps<D, V, P>
) {
  const { Editor, language, requests } = screen
  const draft = useContentDraft(writeJson(example), language)
  const { isBusy, error, attempt } = useAttempt()
  useUnsaved(isTouched || draft.typed !== '' || draft.text !== writeJson(example))
  const create = async (): Promise<void> => {
    const content = draft.read()
    if (content === undefined) return
    await attempt(async () => {
      const created = await draft.explain(async () => await requests.create({ ...fields, ...content }))
      if (created !== undefined) navigate(`${homeOf(screen)}/${created.id}`)
    })
  }
  return (
    <section>
      <p><a {...linkTo(homeOf(screen))}>{screen.title}</a></p>
      <Title name={`New ${screen.noun}`} />
      <p class='hint'>A stored draft is not enforced: check it against stored events first, then activate it.</p>
      <Form class='schema-form' onSubmit={async () => { if (!isBusy) await create() }}>
        {inputs}
        <Editor name={name} draft={draft} isReadOnly={false} />
        {error !== undefined && <Failed error={error} onRetry={() => { void create() }} />}
        <p class='actions'><button type='submit' class='primary' disabled={isBusy}>{action}</button></p>
      </Form>
    </section>
  )
}

function homeOf ({ home }: { home: string }): string {
  return `/projects/${projectId.value}/${home}`
}
