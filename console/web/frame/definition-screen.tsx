/** The frame of the screens of rules and event schemas: one of them with its draft and versions, and a new one. */
import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Ask, Confirm, FormDialog, TextFields, TextsDialog } from '../confirm.tsx'
import { formatAgo, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Choices, Facts, Form } from '../states.tsx'
import { type ContentDraft, useContentDraft } from './content-draft.ts'
import type { AskedEvents, Checked, CheckFollower, Definition, DefinitionRequests, DefinitionVersion } from './definition-requests.ts'
import { type Change, Changes, ToDraft } from './differences.tsx'
import { type Content, SaveDraft, useDraftBase } from './draft-base.tsx'
import { type DraftLanguage, type Fields, listDifferences, writeJson } from './json-text.ts'
import { BackTo, OneOf } from './lists.tsx'
import { StoredCheck } from './stored-check.tsx'
import { Title } from '../title.tsx'

/** What the screens of a kind say and show in their own way. */
export interface DefinitionScreen<D extends Definition, V extends DefinitionVersion, C, P extends Checked> {
  noun: 'rule' | 'schema'
  /** The last part of the path of the list, and its title. */
  home: string
  title: string
  requests: DefinitionRequests<D, V, C, P>
  language: DraftLanguage
  nameOf: (definition: D) => string
  labels: Record<string, string>
  example: Fields
  /** Said when no version is active, and in the dialog that disables it. */
  whenNone: string
  whenDisabled: string
  /** What is enforced; `active` is undefined when that version is not known here. */
  describe: (definition: D, active: V | undefined) => ComponentChildren
  /** What it did, by the name of the fact. */
  countsTitle: string
  describeCounts: (counts: C | undefined) => string
  factsOf?: (definition: D) => Record<string, ComponentChildren>
  /** `version` is the one that the draft was made of. */
  Editor: (props: { name: string, draft: ContentDraft, isReadOnly: boolean, version: number }) => JSX.Element
  check: { hint: string, limit: number }
  Found: (props: { prediction: P, definition: D }) => JSX.Element
  /** What a version would do, in the dialog that activates it. */
  describeVersion?: (version: V) => string
  describePrediction: (prediction: P, mode: string) => string
  /** What can become of an event, and whether a check found that some would be lost. */
  modes?: Record<string, string>
  isHarm?: (prediction: P, mode: string) => boolean
  /** Texts that do not make a version, beside the description. */
  notesOf: (definition: D) => Record<string, string>
}

export const COUNTED_DAYS = 7

/** That of any kind: what differs is handed through. */
type AnyScreen = DefinitionScreen<any, any, any, any>

/** One definition: the enforced version, the draft, its predicted effect, and all versions. */
export function DefinitionDetail ({ screen, id }: { screen: AnyScreen, id: string }) {
  const { requests, noun } = screen
  const loaded = useLoaded(`${noun} ${projectId.value} ${id}`, async (signal) => {
    const [definition, versions] = await Promise.all([requests.find(id, signal), requests.versions(id, signal)])
    return { definition, versions }
  })
  return (
    <OneOf home={screen.home} title={screen.title} of={loaded} what={`The ${noun}`}>
      {(value) => <Detail screen={screen} {...value} reload={loaded.reload} />}
    </OneOf>
  )
}

interface DetailProps {
  screen: AnyScreen
  definition: Definition
  versions: readonly DefinitionVersion[]
  reload: () => void
}

type Open = { what: 'activate', version: number } | { what: 'disable' | 'delete' | 'notes' }

function Detail ({ screen, definition, versions, reload }: DetailProps) {
  const { language: { contentOf }, requests, Editor, Found } = screen
  const { id, version: newest, active_version: active } = definition
  const mayWrite = may('event_definition:write')
  const [prediction, setPrediction] = useState<Checked>()
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
      <DefinitionFacts screen={screen} definition={definition} enforced={enforced} />
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

function DefinitionFacts (
  { screen, definition, enforced }: { screen: AnyScreen, definition: Definition, enforced: DefinitionVersion | undefined }
) {
  const counts = useLoaded(`counts of ${screen.home} ${projectId.value}`, async (signal) => await screen.requests.counts(COUNTED_DAYS, signal))
  // A row that came later would move the buttons below it under a pointer.
  const counted = counts.value === undefined ? '…' : screen.describeCounts(counts.value.get(definition.id))
  return (
    <Facts
      of={{
        Enforced: screen.describe(definition, enforced),
        [screen.countsTitle]: counts.error !== undefined ? `unknown: ${counts.error.message}` : counted,
        Newest: `version ${definition.version}, changed ${formatAgo(definition.updated_at, Date.now())}`,
        ...screen.factsOf?.(definition)
      }}
    />
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

interface OpenDialogProps extends Omit<DetailProps, 'reload'> {
  open: Open
  /** What the check found for the newest version; undefined: it was not checked here. */
  prediction: Checked | undefined
  onClose: () => void
  onDone: () => void
}

function OpenDialog ({ open, ...props }: OpenDialogProps) {
  const { screen, definition, onClose, onDone } = props
  const { requests, noun } = screen
  const change = async (fields: object) => await requests.change(definition.id, fields)
  switch (open.what) {
    case 'activate': return <Activate {...props} number={open.version} />
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

function Activate (
  { screen, definition, versions, number, prediction, onClose, onDone }: Omit<OpenDialogProps, 'open'> & { number: number }
) {
  const { requests, modes, describeVersion, describePrediction, isHarm } = screen
  const [mode, setMode] = useState(definition.mode ?? '')
  const version = versions.find((each) => each.version === number)
  const checked = number === definition.version ? prediction : undefined
  const activate = async () => await requests.change(definition.id, { active_version: number, ...modes !== undefined && { mode } })
  return (
    <FormDialog title='Activate' action={`Activate version ${number}`} onClose={onClose} onConfirm={activate} onDone={onDone}>
      {version !== undefined && describeVersion !== undefined && <p>{describeVersion(version)}</p>}
      {modes !== undefined && <Choices legend='An event that violates the schema is' of={modes} chosen={mode} onChange={setMode} />}
      <p class={checked !== undefined && isHarm?.(checked, mode) === true ? 'error' : 'hint'}>
        {checked === undefined ? 'This version has not been checked against stored events here.' : describePrediction(checked, mode)}
      </p>
    </FormDialog>
  )
}

/** A new definition. It is not enforced by being stored. @param props.texts  Its first texts, such as its name. */
export function NewDefinition ({ screen, texts: first }: { screen: AnyScreen, texts: Record<string, string> }) {
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
      <BackTo home={screen.home} title={screen.title} />
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
