/** The frame of the screens of rules and event schemas: one of them with its draft and versions, and a new one. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Ask, Confirm, TextFields, TextsDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Form, Show } from '../states.tsx'
import { type ContentDraft, useContentDraft } from './content-draft.ts'
import type { AskedEvents, Checked, CheckFollower, Definition, DefinitionRequests, DefinitionVersion } from './definition-requests.ts'
import { type Change, Changes, ToDraft } from './differences.tsx'
import { type Content, SaveDraft, useDraftBase } from './draft-base.tsx'
import { type DraftLanguage, type Fields, listDifferences, writeJson } from './json-text.ts'
import { StoredCheck } from './stored-check.tsx'
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
  /** Labels of texts of a new one. */
  labels: Record<string, string>
  /** The draft of a new one. */
  example: Fields
  /** Said when no version is active, and in the dialog that disables it. */
  whenNone: string
  whenDisabled: string
  Facts: (props: { definition: D, versions: readonly V[] }) => JSX.Element
  /** `version` is the one that the draft was made of. */
  Editor: (props: { name: string, draft: ContentDraft, isReadOnly: boolean, version: number }) => JSX.Element
  check: { hint: string, limit: number }
  Found: (props: { prediction: Prediction, definition: D }) => JSX.Element
  Activate: (props: ActivateProps<D, V, Prediction>) => JSX.Element
  /** Texts that do not make a version, beside the description. */
  notesOf: (definition: D) => Record<string, string>
}

export interface ActivateProps<D, V, Prediction> {
  definition: D
  versions: readonly V[]
  /** The version that is offered. */
  version: number
  /** What the check found for the newest version; undefined: it was not checked here. */
  prediction: Prediction | undefined
  onClose: () => void
  onDone: () => void
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
  const { language: { contentOf }, requests, Facts, Editor, Found } = screen
  const { id, version: newest, active_version: active } = definition
  const mayWrite = may('event_definition:write')
  const [prediction, setPrediction] = useState<P>()
  const [open, setOpen] = useState<Open>()
  // What was predicted is of the draft as it was.
  const draft = useContentDraft(writeJson(contentOf(definition)), screen.language, () => setPrediction(undefined))
  const change = (content: Fields): void => draft.change(writeJson(content))
  const store = async (version: number): Promise<Content<Fields> | undefined> => {
    const stored = await draft.submit(async (fields) => await requests.change(id, { ...fields, version }))
    return stored === undefined ? undefined : { version: stored.version, content: contentOf(stored) }
  }
  const storing = useDraftBase({ newest: { version: newest, content: contentOf(definition) }, draft: draft.content, change, store, reload })
  const check = async (events: AskedEvents, follower: CheckFollower): Promise<void> => {
    setPrediction(undefined)
    setPrediction(await draft.submit(async (fields) => await requests.check(id, { ...fields, ...events }, follower)))
  }
  const enforced = versions.find(({ version }) => version === active)
  const isNewest = storing.isStored && storing.base.version === newest
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
          <button type='button' onClick={() => setOpen({ what: 'notes' })}>Description …</button>
          <button type='button' onClick={() => setOpen({ what: 'delete' })}>Delete …</button>
        </p>
      )}
      <div class='beside'>
        <Form onSubmit={storing.save}>
          <h2>Draft</h2>
          <Editor name={screen.nameOf(definition)} draft={draft} isReadOnly={!mayWrite} version={storing.base.version} />
          {mayWrite && <SaveDraft of={storing} action='Store a version' />}
        </Form>
        <Active active={active} content={enforced === undefined ? undefined : contentOf(enforced)} draft={draft.content} whenNone={screen.whenNone} />
      </div>
      {may('event:read') && (
        <StoredCheck text={draft.text} {...screen.check} check={check}>
          {prediction !== undefined && <Found prediction={prediction} definition={definition} />}
        </StoredCheck>
      )}
      <h2>Versions</h2>
      <Changes of={versions.map((version, index) => toChange(version, versions[index + 1], screen.language, definition))}>
        {({ version, content }) => mayWrite && (
          <>
            <ToDraft version={version} onPress={() => change(content)} />
            {version !== active && <button type='button' onClick={() => activate(version)}>Activate<span class='hidden'> version {version}</span> …</button>}
          </>
        )}
      </Changes>
      {open !== undefined && (
        <OpenDialog
          screen={screen} definition={definition} versions={versions} open={open} prediction={isNewest ? prediction : undefined}
          onClose={() => setOpen(undefined)} onDone={reload}
        />
      )}
    </>
  )
}

function toChange (
  of: DefinitionVersion, before: DefinitionVersion | undefined, { contentOf }: DraftLanguage, { first_version: first, active_version: active }: Definition
): Change<Fields> {
  const { version, created_at: at, created_by: by } = of
  return {
    version, at, by: by?.email ?? 'the command line', about: version === active ? '; active' : '', content: contentOf(of),
    before: before !== undefined ? contentOf(before) : version === first ? {} : undefined
  }
}

interface ActiveProps {
  active: number | null
  /** Of the active version; undefined: unknown. */
  content: Fields | undefined
  draft: Fields | undefined
  whenNone: string
}

/** The enforced version, and its differences from the draft. */
function Active ({ active, content, draft, whenNone }: ActiveProps) {
  const places = content === undefined || draft === undefined ? [] : listDifferences(content, draft).map(({ place }) => place)
  return (
    <div>
      <h2>Active{active !== null && `: version ${active}`}</h2>
      <p class='hint' role='status'>
        {active === null
          ? whenNone
          : content === undefined
            ? 'It is older than the versions shown here.'
            : draft === undefined
              ? 'The draft is invalid.'
              : places.length === 0 ? 'The draft says the same.' : `The draft differs in ${showText(places.join(', '), 1000)}.`}
      </p>
      {content !== undefined && <pre tabIndex={0} aria-label={`Version ${active}`}>{writeJson(content)}</pre>}
    </div>
  )
}

interface OpenDialogProps<D extends Definition, V extends DefinitionVersion, P extends Checked> extends Omit<ActivateProps<D, V, P>, 'version'> {
  screen: DefinitionScreen<D, V, P>
  open: Open
}

function OpenDialog<D extends Definition, V extends DefinitionVersion, P extends Checked> ({ screen, open, ...props }: OpenDialogProps<D, V, P>) {
  const { requests, noun, Activate } = screen
  const { definition, onClose, onDone } = props
  const change = async (fields: object) => await requests.change(definition.id, fields)
  switch (open.what) {
    case 'activate': return <Activate {...props} version={open.version} />
    case 'notes': {
      const texts = { description: definition.description, ...screen.notesOf(definition) }
      return <TextsDialog title='Description' texts={texts} save={change} onDone={onDone} onClose={onClose} />
    }
    case 'disable': return (
      <Ask title='Disable' action='Disable' onClose={onClose} onConfirm={async () => await change({ active_version: null })} onDone={onDone}>
        <p>{screen.whenDisabled}</p>
      </Ask>
    )
    case 'delete': return (
      <Confirm
        title={`Delete the ${noun}`} word='delete' action='Delete' onClose={onClose} onConfirm={async () => await requests.remove(definition.id)}
        onDone={() => navigate(homeOf(screen))}
      >
        <p>It is no longer enforced and disappears from the list. To only stop enforcing it, disable it instead.</p>
      </Confirm>
    )
  }
}

/** A new definition. It is not enforced by being stored. @param props.texts  Its first texts, such as its name. */
export function NewDefinition<D extends Definition, V extends DefinitionVersion, P extends Checked> (
  { screen, texts: first }: { screen: DefinitionScreen<D, V, P>, texts: Record<string, string> }
) {
  const { Editor, language, requests, noun, labels, example } = screen
  const draft = useContentDraft(writeJson(example), language)
  const [texts, setTexts] = useState(first)
  const store = async (): Promise<undefined> => {
    const created = await draft.submit(async (content) => await requests.create({ ...texts, ...content }))
    if (created !== undefined) navigate(`${homeOf(screen)}/${created.id}`)
  }
  const storing = useDraftBase({
    newest: { version: 0, content: example }, draft: draft.content, change: () => {}, store, reload: () => {},
    isTouched: JSON.stringify(texts) !== JSON.stringify(first)
  })
  return (
    <section>
      <p><a {...linkTo(homeOf(screen))}>{screen.title}</a></p>
      <Title name={`New ${noun}`} />
      <p class='hint'>A stored draft is not enforced: check it against stored events first, then activate it.</p>
      <Form class='schema-form' onSubmit={storing.save}>
        <div class='stacked'><TextFields texts={texts} labels={labels} onChange={setTexts} /></div>
        <Editor name={texts['event'] ?? ''} draft={draft} isReadOnly={false} version={0} />
        <SaveDraft of={storing} action={`Store the ${noun}`} />
      </Form>
    </section>
  )
}

function homeOf ({ home }: { home: string }): string {
  return `/projects/${projectId.value}/${home}`
}
