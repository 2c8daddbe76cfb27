/** The version that a draft was made of, so that nobody undoes unseen what somebody else stored meanwhile. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { showText } from '../format.ts'
import { Failed } from '../states.tsx'
import { listDifferences, writeJson } from './json-text.ts'
import { useUnsaved } from './unsaved.tsx'
import type { Version } from './version-parts.tsx'

/** A version with what an editor shows of it. */
export type Content = Pick<Version, 'version' | 'content'>

export interface DraftBase {
  /** The version that the draft was made of. */
  base: Content
  /** The draft says the same as its base. */
  isStored: boolean
  /** What somebody else stored meanwhile, and the draft would undo; undefined: nothing. */
  newer: Content | undefined
  /** Another version is the base from now on. */
  rebase: (on: Content) => void
  /** Stores the draft as the next version. */
  save: () => Promise<void>
  isSaving: boolean
  /** Why it could not be stored. */
  error: ApiError | undefined
  /** Gives the draft up for what somebody else stored. */
  discard: () => void
}

interface Draft {
  /** Whether it says the same as the content of a version. */
  says: (content: unknown) => boolean
  /** Gives it another text. */
  change: (text: string) => void
  /** Stores the draft on top of this version. Returns the stored definition, or undefined after showing an error. */
  store: (version: number) => Promise<Content | undefined>
  /** Reads the newest version again. */
  reload: () => void
}

/**
 * Follows what a draft is based on, and stores it. A draft that nobody touched becomes the newest version; one with changes keeps them,
 * and asks before the page is left.
 *
 * @param newest  The newest version, as it was read last.
 */
export function useDraftBase (newest: Content, { says, change, store, reload }: Draft): DraftBase {
  const [base, setBase] = useState(newest)
  const { isBusy, error, attempt } = useAttempt()
  const isStored = says(base.content)
  const isOutdated = newest.version > base.version
  const isKept = isOutdated && !isStored && !says(newest.content)
  useEffect(() => {
    if (!isOutdated || isKept) return
    setBase(newest)
    if (isStored) change(writeJson(newest.content))
  }, [isOutdated, isKept])
  useUnsaved(!isStored)
  const save = async (): Promise<void> => {
    await attempt(async () => {
      const stored = await store(base.version).catch((cause: unknown) => {
        if (!(cause instanceof ApiError) || cause.code !== 'conflict') throw cause
        // Somebody else stored a version meanwhile: it is read, and shown as the newer one.
        reload()
        return undefined
      })
      if (stored === undefined) return
      setBase(stored)
      reload()
    })
  }
  const discard = (): void => {
    setBase(newest)
    change(writeJson(newest.content))
  }
  return { base, isStored, newer: isKept ? newest : undefined, rebase: setBase, save, isSaving: isBusy, error, discard }
}

interface StoreDraftProps {
  draft: DraftBase
  /** All versions, newest first: they say who stored what. */
  versions: readonly Version[]
}

/** Below a draft: why it was not stored, what somebody else stored meanwhile, and how it is stored. */
export function StoreDraft ({ draft: { base, isStored, newer, error, isSaving, ...draft }, versions }: StoreDraftProps) {
  return (
    <>
      {error !== undefined && <Failed error={error} onRetry={() => { void draft.save() }} />}
      {newer !== undefined && (
        <DraftConflict
          base={base} newer={{ created_by: null, created_at: '', ...versions[0], ...newer }}
          onContinue={() => draft.rebase(newer)} onDiscard={draft.discard}
        />
      )}
      <p class='actions'>
        <span class='hint' role='status'>{isStored ? `Identical to version ${base.version}.` : 'Not stored yet. A stored draft is not enforced.'}</span>
        <button type='button' class={isStored ? '' : 'primary'} disabled={isStored || isSaving || newer !== undefined} onClick={() => { void draft.save() }}>Store a version</button>
      </p>
    </>
  )
}

interface DraftConflictProps {
  base: Content
  newer: Version
  /** Gives the draft up. */
  onDiscard: () => void
  /** Keeps the draft, whose base the newer version is then. */
  onContinue: () => void
}

/** Somebody stored another version while this one was drafted: shows it, and lets the draft go on from there. */
function DraftConflict ({ base, newer, onDiscard, onContinue }: DraftConflictProps) {
  const places = listDifferences(base.content, newer.content)
  return (
    <div class='conflict' role='alert'>
      <p>
        <strong>Not stored: a newer version {newer.version} exists</strong>, by {newer.created_by?.email ?? 'the command line'}.
        Your draft is based on version {base.version} and would revert it.
      </p>
      <p>
        {places.length === 0
          ? <>Both versions say the same, in another order.</>
          : <>Version {newer.version} differs in {places.map(({ place }, index) => <span key={place}>{index > 0 && ', '}<code>{showText(place, 80)}</code></span>)}.</>}
      </p>
      <details><summary>Version {newer.version}</summary><pre tabIndex={0} aria-label={`Version ${newer.version}`}>{writeJson(newer.content)}</pre></details>
      <p class='actions'>
        <button type='button' onClick={onDiscard}>Discard my draft</button>
        <button type='button' class='primary' onClick={onContinue}>Continue my draft on version {newer.version}</button>
      </p>
    </div>
  )
}
