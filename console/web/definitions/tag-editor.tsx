import { useState } from 'preact/hooks'
import { ApiError, request } from '../api-client.ts'
import { showText } from '../format.ts'
import { projectId } from '../router.ts'
import { Dialog, Failed } from '../states.tsx'

interface Tagged { id: string, name: string, tags: string[] }

interface TagEditorProps<T> {
  /** Part of the path of the API: `event_definitions`. */
  resource: string
  definition: T
  /** False shows the tags only. */
  mayWrite: boolean
  onChanged: (changed: T) => void
}

/** The tags of a definition, and a dialog to change them. */
export function Tags<T extends Tagged> (props: TagEditorProps<T>) {
  const [isOpen, setOpen] = useState(false)
  const { definition, mayWrite } = props
  return (
    <>
      {definition.tags.map((tag) => <span key={tag} class='tag'>{showText(tag, 40)}</span>)}
      {mayWrite && (
        <button type='button' class='quiet' onClick={() => setOpen(true)}>
          {definition.tags.length === 0 ? 'Add tags' : 'Change'}<span class='hidden'> of {showText(definition.name, 60)}</span>
        </button>
      )}
      {isOpen && <TagDialog {...props} onClose={() => setOpen(false)} />}
    </>
  )
}

function TagDialog<T extends Tagged> ({ resource, definition, onChanged, onClose }: TagEditorProps<T> & { onClose: () => void }) {
  const [text, setText] = useState(definition.tags.join(', '))
  const [error, setError] = useState<ApiError>()

  async function save (): Promise<void> {
    try {
      onChanged(await request<T>(`/api/projects/${projectId.value}/${resource}/${definition.id}/`, {
        method: 'PATCH', body: { tags: readTags(text) }
      }))
      onClose()
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, 'console_error', String(cause)))
    }
  }

  return (
    <Dialog title={`Tags of ${showText(definition.name, 60)}`} onClose={onClose}>
      <form onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
      >
        <label for='tags'>Tags, separated by commas</label>
        <input id='tags' value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {error !== undefined && <Failed error={error} onRetry={() => { void save() }} />}
        <p class='actions'>
          <button type='button' onClick={onClose}>Cancel</button>
          <button type='submit' class='primary'>Save</button>
        </p>
      </form>
    </Dialog>
  )
}

/** Words between commas, each once, in the order written. */
export function readTags (text: string): string[] {
  return [...new Set(text.split(',').map((tag) => tag.trim()).filter((tag) => tag !== ''))]
}
