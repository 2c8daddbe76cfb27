import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { projectId } from '../router.ts'

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
  const save = async (): Promise<void> => {
    onChanged(await request<T>(`/api/projects/${projectId.value}/${resource}/${definition.id}/`, {
      method: 'PATCH', body: { tags: readTags(text) }
    }))
  }
  return (
    <FormDialog class='' title={`Tags of ${showText(definition.name, 60)}`} action='Save' onClose={onClose} onConfirm={save}>
      <label for='tags'>Tags, separated by commas</label>
      <input id='tags' value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </FormDialog>
  )
}

/** Words between commas, each once, in the order written. */
export function readTags (text: string): string[] {
  return [...new Set(text.split(',').map((tag) => tag.trim()).filter((tag) => tag !== ''))]
}
