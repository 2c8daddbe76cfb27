/** The parts that what has versions shares: the active one beside the draft, and the list of all. */
import { showText, zoneLabel } from '../format.ts'
import { Table, Time } from '../states.tsx'
import type { DefinitionVersion } from './definition-requests.ts'
import { listDifferences, readJson, writeJson } from './json-text.ts'

/** A version of something, with what an editor shows of it. */
export interface Version extends DefinitionVersion { content: unknown }

interface BesideProps {
  /** The version that is enforced; null: none. */
  active: number | null
  versions: readonly Version[]
  /** The draft. */
  text: string
  /** Said when none is enforced. */
  whenNone: string
}

/** The enforced version, and its differences from the draft. */
export function ActiveVersion ({ active, versions, text, whenNone }: BesideProps) {
  const enforced = versions.find(({ version }) => version === active)
  if (active === null || enforced === undefined) {
    return (
      <div>
        <h2>Active{active !== null && `: version ${active}`}</h2>
        <p class='hint'>{active === null ? whenNone : 'It is older than the versions shown here.'}</p>
      </div>
    )
  }
  return (
    <div>
      <h2>Active: version {active}</h2>
      <p class='hint' role='status'><Differences from={enforced.content} text={text} /></p>
      <pre tabIndex={0} aria-label={`Version ${active}`}>{writeJson(enforced.content)}</pre>
    </div>
  )
}

function Differences ({ from, text }: { from: unknown, text: string }) {
  const draft = readJson(text)
  if (draft.error !== undefined) return <>The draft is not JSON.</>
  const places = listDifferences(from, draft.value)
  if (places.length === 0) return <>The draft says the same.</>
  return (
    <>The draft differs in {places.map(({ place }, index) => <span key={place}>{index > 0 && ', '}<code>{showText(place, 80)}</code></span>)}.</>
  )
}

interface VersionsProps {
  active: number | null
  versions: readonly Version[]
  mayWrite: boolean
  /** A version is to be the draft. */
  onDraft: (text: string) => void
  onActivate: (version: number) => void
}

/** Who stored what when. Versions never change. */
export function Versions ({ active, versions, mayWrite, onDraft, onActivate }: VersionsProps) {
  return (
    <>
      <h2>Versions</h2>
      <Table label='Versions' head={['Version', `Stored (${zoneLabel()})`, 'By', mayWrite && '-Actions']}>
        {versions.map(({ version, content, created_by: by, created_at: at }) => (
          <tr key={version}>
            <td>{version}{version === active && <> <span class='tag'>active</span></>}</td>
            <td class='numbers'><Time at={at} /></td><td class='value'>{by?.email ?? 'the command line'}</td>
            {mayWrite && (
              <td>
                <button type='button' onClick={() => onDraft(writeJson(content))}>To the draft<span class='hidden'> from version {version}</span></button>{' '}
                {version !== active && <button type='button' onClick={() => onActivate(version)}>Activate<span class='hidden'> version {version}</span> …</button>}
              </td>
            )}
          </tr>
        ))}
      </Table>
    </>
  )
}
